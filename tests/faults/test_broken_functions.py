"""What functions break, and what must hold all the same (faults G2, G3, G5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_workpool.testing import drain
from tests.app import broken_functions as broken
from tests.app import functions
from tests.app.models import Effect
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])
PATIENCE = 30


def test_every_broken_function_ends_frees_its_slot_and_harms_no_other_work(
    live: Callable[..., LiveRunner],
) -> None:
    """One slot and one thread: whatever stays behind would hold up the next."""
    pool = fresh(max_parallelism=1)
    runner = live("--threads", "1")
    calls: list[tuple[Any, str]] = [
        (broken.raise_unreadable, "error"),
        (broken.raise_nameless, "error"),
        (broken.break_the_loop, "success"),
        (broken.stop_the_loop, "success"),
        (broken.begin_by_hand, "success"),
        (broken.return_unstorable, "error"),
        (broken.close_stdout, "success"),
    ]

    ends = []
    for fn, _ in calls:
        ends.append(pool.wait(pool.enqueue_action(fn), PATIENCE).completion_status)
        after = pool.enqueue_mutation(functions.effect, {"what": fn.__name__})
        assert "success" == pool.wait(after, PATIENCE).completion_status, fn.__name__

    assert [expected for _, expected in calls] == ends
    assert len(calls) == Effect.objects.count()
    assert 0 == runner.stop(), runner.output


@pytest.mark.parametrize(
    "fn", [broken.leave_atomic_open, broken.exchange_connection], ids=["open", "gone"]
)
def test_a_mutation_that_spoils_its_transaction_is_an_error_without_effect(
    fn: Callable[..., None], live: Callable[..., LiveRunner]
) -> None:
    pool = fresh(max_parallelism=1)
    live("--threads", "1")

    spoiled = pool.enqueue_mutation(fn, {"what": "spoiled"})
    end = pool.wait(spoiled, PATIENCE)
    after = pool.enqueue_mutation(functions.effect, {"what": "after"})
    pool.wait(after, PATIENCE)

    assert "error" == end.completion_status
    assert "TransactionManagementError" in pool.result(spoiled).error_type
    assert ["after"] == list(Effect.objects.values_list("what", flat=True))


def test_a_result_that_cannot_be_stored_says_that_the_function_ran() -> None:
    pool = fresh()
    work = pool.enqueue_action(broken.return_unstorable)

    drain(pool.name)

    result = pool.result(work)
    assert "InvalidArgumentsError" == result.error_type
    assert "result: found set" in result.error
    assert "The function ran" in result.error


def test_without_time_zones_everything_works_too() -> None:
    """Style 17: both modes of ``USE_TZ``."""
    pool = fresh(status_ttl=None)

    with override_settings(USE_TZ=not settings.USE_TZ):
        work = pool.enqueue_action(functions.add, {"a": 1})
        canceled = pool.enqueue_action(functions.add, {"a": 1})
        pool.cancel(canceled)
        pool.pause("for a moment")
        pool.resume()
        drain(pool.name)
        status = pool.status(work)

    assert 2 == pool.result(work).return_value
    assert "canceled" == pool.status(canceled).completion_status
    assert status.completed_at is not None
    assert status.completed_at.tzinfo is not None
    assert status.enqueued_at <= status.completed_at
