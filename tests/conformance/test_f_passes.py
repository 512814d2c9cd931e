"""Conformance group F: when cancelations take effect, and how many in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_workpool import testing
from django_workpool.db import clock
from django_workpool.models import CompletedWork, PendingCancelation
from tests.app import functions
from tests.conformance.pools import fresh
from tests.conformance.stumbling import NO_NETS, loop_state, wait_asleep
from tests.conformance.tables import count
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def _cancel_all(pool: Workpool, works: Sequence[Work]) -> None:
    """Store a request for each work, and kick once."""
    now = clock.now("default")
    with transaction.atomic(using="default"):
        PendingCancelation.objects.using("default").bulk_create(
            PendingCancelation(pool=pool.name, work_id=work.pk, requested_at=now)
            for work in works[1:]
        )
        pool.cancel(works[0])


def _canceled(pool: Workpool) -> int:
    rows = CompletedWork.objects.using("default").for_pool(pool.name)
    return rows.filter(completion_status="canceled").count()


@pytest.mark.item("F7")
def test_a_work_of_a_paused_pool_ends_canceled_in_the_next_pass(
    journal: Journal,
) -> None:
    pool = fresh()
    pool.pause("maintenance")
    work = pool.enqueue_action(functions.echo)
    testing.drain(pool.name)

    pool.cancel(work)
    testing.run_pass(pool.name)

    assert "canceled" == pool.status(work).completion_status
    assert pool.diagnostics().paused is True
    assert [] == journal.begins()


@pytest.mark.item("F7")
def test_a_work_behind_a_full_pool_ends_canceled_in_the_next_pass(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    first, second = pool.enqueue_action_batch(functions.echo, [None, None])
    testing.run_pass(pool.name)

    pool.cancel(second)
    testing.run_pass(pool.name)

    assert "canceled" == pool.status(second).completion_status
    assert "in_progress" == pool.status(first).kind


@pytest.mark.item("F7")
def test_the_cancelation_of_a_work_in_a_paused_pool_wakes_a_sleeping_loop(
    live: Callable[..., object], journal: Journal
) -> None:
    # Without the backstop: the cancelation alone wakes the loop, so it is at once.
    live(**NO_NETS)
    pool = fresh()
    pool.pause()
    works = pool.enqueue_action_batch(functions.echo, [None] * 5)
    wait_asleep(pool)

    ends = [(pool.cancel(work), pool.wait(work, timeout=30)) for work in works]

    assert [(True, "canceled")] * 5 == [
        (answer, end.completion_status) for answer, end in ends
    ]
    assert pool.diagnostics().paused is True
    assert [] == journal.begins()


@pytest.mark.item("F10")
def test_2000_cancelations_are_consumed_200_at_a_time() -> None:
    pool = fresh()
    pool.pause()
    works = pool.enqueue_action_batch(functions.echo, [None] * 2_000)
    _cancel_all(pool, works)

    passes = [testing.run_pass(pool.name) for _ in range(11)]

    assert [200] * 10 + [0] == [
        len(passed.plan.canceled) for passed in passes if passed is not None
    ]
    assert [True] * 10 + [False] == [
        passed.is_running for passed in passes if passed is not None
    ]
    assert 2_000 == _canceled(pool)
    assert 0 == count("PendingCancelation")
    assert 0 == count("PendingStart")


@pytest.mark.item("F10")
def test_one_kick_is_enough_for_2000_cancelations(
    live: Callable[..., object], journal: Journal
) -> None:
    live(**NO_NETS)
    pool = fresh()
    pool.pause()
    works = pool.enqueue_action_batch(functions.echo, [None] * 2_000)
    wait_asleep(pool)

    _cancel_all(pool, works)

    until(lambda: _canceled(pool) == 2_000, "2000 cancelations")
    until(lambda: loop_state(pool) == "idle", "the loop to sleep again")
    assert 0 == count("PendingCancelation")
    assert [] == journal.begins()
