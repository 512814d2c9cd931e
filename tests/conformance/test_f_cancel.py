"""Conformance group F: cancelation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import transaction

from django_workpool import WorkNotFoundError, testing
from django_workpool.models import InProgressWork
from tests.app import functions
from tests.app.models import Effect
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.refusals import refusal
from tests.conformance.tables import count, nothing_written, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def _enqueue_action(pool: Workpool, **args: Any) -> Work:
    return pool.enqueue_action(functions.echo, args)


def _enqueue_async_action(pool: Workpool, **args: Any) -> Work:
    return pool.enqueue_action(functions.async_echo, args)


def _enqueue_mutation(pool: Workpool, **args: Any) -> Work:
    return pool.enqueue_mutation(functions.effect, args)


KINDS = pytest.mark.parametrize(
    "enqueue",
    [_enqueue_action, _enqueue_async_action, _enqueue_mutation],
    ids=["action", "async action", "mutation"],
)


@KINDS
@pytest.mark.item("F1")
def test_a_pending_work_canceled_before_the_pass_never_runs_and_ends_canceled(
    enqueue: Callable[[Workpool], Work], journal: Journal
) -> None:
    pool = fresh(max_parallelism=5)
    work = enqueue(pool)

    pool.cancel(work)
    ran = testing.drain(pool.name)

    assert 0 == ran
    assert [] == journal.begins()
    assert "completed" == pool.status(work).kind
    assert "canceled" == pool.status(work).completion_status
    assert not Effect.objects.exists()


@pytest.mark.item("F1")
def test_a_canceled_work_takes_no_slot_from_the_one_behind_it(journal: Journal) -> None:
    pool = fresh(max_parallelism=1)
    first, second = pool.enqueue_action_batch(functions.echo, [None, None])

    pool.cancel(first)
    testing.run_pass(pool.name)

    assert "completed" == pool.status(first).kind
    assert "in_progress" == pool.status(second).kind


@KINDS
@pytest.mark.item("F2")
def test_cancel_of_a_pending_work_answers_true(
    enqueue: Callable[[Workpool], Work], journal: Journal
) -> None:
    pool = fresh()
    work = enqueue(pool)

    assert pool.cancel(work) is True
    assert pool.status(work).cancel_requested is True


@KINDS
@pytest.mark.item("F2")
def test_cancel_of_a_work_in_progress_answers_true(
    enqueue: Callable[[Workpool], Work], journal: Journal
) -> None:
    pool = fresh()
    work = enqueue(pool)
    begin(pool)

    assert pool.cancel(work) is True
    assert "in_progress" == pool.status(work).kind


@KINDS
@pytest.mark.item("F2")
def test_cancel_of_a_completed_work_answers_false_and_changes_nothing(
    enqueue: Callable[[Workpool], Work], journal: Journal
) -> None:
    pool = fresh()
    work = enqueue(pool)
    testing.drain(pool.name)

    with nothing_written():
        answer = pool.cancel(work)

    assert answer is False
    assert pool.status(work).cancel_requested is False
    assert "success" == pool.result(work).kind


@pytest.mark.item("F2")
def test_cancel_of_a_canceled_work_answers_false(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    pool.cancel(work)
    testing.drain(pool.name)

    with nothing_written():
        answer = pool.cancel(work)

    assert answer is False


@pytest.mark.item("F2")
def test_a_work_canceled_twice_ends_canceled_once(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)

    answers = [pool.cancel(work), pool.cancel(work)]
    testing.drain(pool.name)

    assert [True, True] == answers
    assert "canceled" == pool.result(work).kind
    assert 0 == count("PendingCancelation")


@pytest.mark.item("F3")
def test_a_canceled_action_in_progress_is_flagged_and_keeps_its_slot(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    held = pool.enqueue_action(functions.echo)
    begin(pool)
    behind = pool.enqueue_action(functions.echo)

    pool.cancel(held)
    testing.run_pass(pool.name)

    assert "in_progress" == pool.status(held).kind
    assert pool.status(held).cancel_requested is True
    assert 0 == count("PendingCancelation")
    assert [True] == list(
        InProgressWork.objects.using("default").values_list(
            "cancel_requested", flat=True
        )
    )
    assert "pending" == pool.status(behind).kind


@pytest.mark.item("F3", "F4")
def test_a_held_action_goes_on_after_its_cancelation_and_its_success_stands(
    live: Callable[..., object], journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)
    live()
    held = pool.enqueue_action(functions.hold_until_canceled)
    behind = pool.enqueue_action(functions.hold, {"name": "behind"})
    journal.wait_for("waits")

    answer = pool.cancel(held)
    journal.wait_begun("behind")

    # It saw its cancelation while it ran, and ended by itself.
    assert answer is True
    assert ("success", True) == (
        pool.result(held).kind,
        pool.result(held).return_value,
    )
    journal.release("behind")
    assert "success" == pool.wait(behind, timeout=30).completion_status
    assert 1 == journal.peak(pool.name)


@pytest.mark.item("F4")
@pytest.mark.parametrize("passes", [1, 0], ids=["flagged", "not yet flagged"])
def test_a_canceled_action_that_succeeds_is_a_success_with_its_value(
    passes: int, journal: Journal
) -> None:
    pool = fresh()
    work = _enqueue_action(pool, value=[1, "two"])
    (assignment,) = begin(pool)

    pool.cancel(work)
    [testing.run_pass(pool.name) for _ in range(passes)]
    end(assignment)
    testing.drain(pool.name)

    assert "success" == pool.result(work).kind
    assert [1, "two"] == pool.result(work).return_value
    assert 0 == count("PendingCancelation")
    assert 1 == len(journal.begins())


@pytest.mark.item("F8")
def test_cancel_of_an_unknown_id_raises_and_stores_nothing() -> None:
    pool, stranger = fresh(), fresh()
    foreign = stranger.enqueue_action(functions.echo)

    with nothing_written():
        for_unknown = refusal(WorkNotFoundError, pool.cancel, uuid4())
        for_text = refusal(WorkNotFoundError, pool.cancel, "no id")
        for_foreign = refusal(WorkNotFoundError, pool.cancel, foreign)

    assert str(foreign.pk) in str(for_foreign)
    assert "no id" in str(for_text)
    assert for_unknown.work_id
    assert 0 == count("PendingCancelation")


@KINDS
@pytest.mark.item("F9")
def test_cancel_in_a_transaction_that_rolls_back_was_never_asked(
    enqueue: Callable[[Workpool], Work], journal: Journal
) -> None:
    pool = fresh()
    work = enqueue(pool)

    with transaction.atomic(using="default"):
        answer = pool.cancel(work)
        transaction.set_rollback(True, using="default")
    testing.drain(pool.name)

    assert answer is True
    assert "success" == pool.result(work).kind
    assert [str(work.pk)] == journal.begins()


@pytest.mark.item("F9")
def test_cancel_in_a_savepoint_that_rolls_back_was_never_asked(
    journal: Journal,
) -> None:
    pool = fresh()
    kept, canceled = pool.enqueue_action_batch(functions.echo, [None, None])

    with transaction.atomic(using="default"):
        with transaction.atomic(using="default"):
            pool.cancel(kept)
            transaction.set_rollback(True, using="default")
        pool.cancel(canceled)
    testing.drain(pool.name)

    assert "success" == pool.result(kept).kind
    assert "canceled" == pool.result(canceled).kind


@pytest.mark.item("F9")
def test_cancel_in_an_open_transaction_is_not_seen_before_its_commit() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    before = rows()

    with transaction.atomic(using="default"):
        pool.cancel(work)
        inside = count("PendingCancelation")
        transaction.set_rollback(True, using="default")

    assert 1 == inside
    assert before == rows()
