"""Conformance group H: results and waiting for them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_workpool import UnsafeWaitError, WorkNotFinishedError, testing
from tests.app import functions, life_functions
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.refusals import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@pytest.mark.item("H9")
def test_the_result_of_a_work_that_has_not_ended_is_refused(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)

    pending = refusal(WorkNotFinishedError, pool.result, work)
    (assignment,) = begin(pool)
    in_progress = refusal(WorkNotFinishedError, pool.result, work)
    end(assignment)
    ended = refusal(WorkNotFinishedError, pool.result, work)
    testing.run_pass(pool.name)

    errors = [pending, in_progress, ended]
    assert ["pending", "in_progress", "in_progress"] == [error.kind for error in errors]
    assert {work.pk} == {error.work_id for error in errors}
    assert all(str(work.pk) in str(error) for error in errors)
    assert "success" == pool.result(work).kind


@pytest.mark.item("H10")
def test_the_result_of_a_canceled_work_is_canceled_without_a_value(
    journal: Journal,
) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo, {"value": "never"})

    pool.cancel(work)
    testing.drain(pool.name)

    found = pool.result(work)
    assert ("canceled", None) == (found.kind, found.return_value)
    assert ("", "", "") == (found.error_type, found.error, found.traceback)


@pytest.mark.item("H10")
def test_a_flagged_work_that_fails_is_canceled_and_its_error_stays_readable(
    journal: Journal,
) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.fail, {"message": "too late"})
    (assignment,) = begin(pool)

    pool.cancel(work)
    testing.run_pass(pool.name)
    end(assignment)
    testing.run_pass(pool.name)

    found = pool.result(work)
    assert ("canceled", None) == (found.kind, found.return_value)
    assert ("ValueError", "too late") == (found.error_type, found.error)


@pytest.mark.item("H11", "H13")
def test_wait_returns_when_the_work_ends_also_inside_a_work_of_another_pool(
    live: Callable[..., object], journal: Journal
) -> None:
    sleepers, waiters = fresh("sleepers"), fresh("waiters")
    live()

    slow = sleepers.enqueue_action(functions.sleep, {"seconds": 1})
    waiter = waiters.enqueue_action(
        life_functions.wait_in, {"pool": sleepers.name, "work_id": str(slow.pk)}
    )
    ended = sleepers.wait(slow, timeout=30)
    waited = waiters.wait(waiter, timeout=timedelta(seconds=30))

    assert ("completed", "success") == (ended.kind, ended.completion_status)
    assert ended == sleepers.status(slow)
    assert ended.started_at is not None
    assert ended.completed_at is not None
    assert ended.completed_at - ended.started_at >= timedelta(seconds=1)
    assert "success" == waited.completion_status
    assert "completed" == waiters.result(waiter).return_value


@pytest.mark.item("H12")
@pytest.mark.parametrize("timeout", [0, 0.05, timedelta(milliseconds=50)])
def test_wait_gives_up_in_time_and_the_work_goes_on(
    timeout: float | timedelta, journal: Journal
) -> None:
    pool = fresh()
    held = pool.enqueue_action(functions.echo)
    (assignment,) = begin(pool)

    gave_up = refusal(TimeoutError, pool.wait, held, timeout)

    assert str(held.pk) in str(gave_up)
    assert pool.name in str(gave_up)
    assert "in_progress" == pool.status(held).kind
    end(assignment)
    testing.run_pass(pool.name)
    assert "success" == pool.wait(held, timeout).completion_status


@pytest.mark.item("H13")
def test_wait_inside_a_transaction_is_refused(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    testing.drain(pool.name)

    with transaction.atomic(using="default"):
        refused = refusal(UnsafeWaitError, pool.wait, work)

    assert pool.name == refused.pool
    assert "transaction" in str(refused)
    with transaction.atomic(using="other"):
        assert "completed" == pool.wait(work).kind


@pytest.mark.item("H13")
def test_wait_inside_a_work_of_the_same_pool_is_refused(journal: Journal) -> None:
    pool = fresh(max_parallelism=2)
    other = pool.enqueue_action(functions.echo)
    waiter = pool.enqueue_action(
        life_functions.wait_in, {"pool": pool.name, "work_id": str(other.pk)}
    )

    testing.drain(pool.name)

    found = pool.result(waiter)
    assert ("error", "UnsafeWaitError") == (
        found.kind,
        found.error_type.rpartition(".")[2],
    )
    assert "success" == pool.result(other).kind


@pytest.mark.item("H13")
def test_wait_inside_a_mutation_is_refused_also_for_another_pool(
    journal: Journal,
) -> None:
    pool, waiters = fresh(), fresh("waiters")
    work = pool.enqueue_action(functions.echo)
    testing.drain(pool.name)
    waiter = waiters.enqueue_mutation(
        life_functions.wait_in_mutation,
        {"pool": pool.name, "work_id": str(work.pk)},
    )

    testing.drain(waiters.name)

    found = waiters.result(waiter)
    assert "error" == found.kind
    assert "UnsafeWaitError" in found.traceback
    assert "transaction" in found.error
