"""Conformance group H: what a pool holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_workpool import testing
from django_workpool.models import Work
from tests.app import functions
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.tables import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

KEYS = {
    "pendingStart",
    "inProgressWork",
    "pendingCompletion",
    "pendingCancelation",
    "active",
}


def _mixed() -> Workpool:
    """Return a pool with two pending, three in progress, one done, one canceled."""
    pool = fresh("mixed", max_parallelism=3)
    works = pool.enqueue_action_batch(functions.echo, [None] * 5)
    first, *_ = begin(pool)
    end(first)
    pool.cancel(works[4])
    return pool


@pytest.mark.item("H15")
def test_running_names_each_work_in_progress(
    journal: Journal, django_assert_max_num_queries: Any
) -> None:
    pool, other = fresh(max_parallelism=2), fresh()
    named = pool.enqueue_action(functions.echo, name="by its own name")
    plain = pool.enqueue_action(functions.echo)
    pool.enqueue_action(functions.echo)
    other.enqueue_action(functions.echo)
    begin(pool)
    begin(other)
    pool.cancel(plain)
    testing.run_pass(pool.name)

    with django_assert_max_num_queries(2, using="default"):
        found = pool.running()

    worker = testing.inline_executor().worker.pk
    assert [
        (named.pk, "by its own name", 1, worker, 1, False),
        (plain.pk, plain.fn_name, 1, worker, 2, True),
    ] == [
        (
            one.work_id,
            one.name,
            one.attempt,
            one.worker_id,
            one.lane,
            one.cancel_requested,
        )
        for one in found
    ]
    assert [pool.status(named).started_at, pool.status(plain).started_at] == [
        one.started_at for one in found
    ]


@pytest.mark.item("H15")
def test_running_of_a_pool_without_works_is_empty() -> None:
    assert [] == fresh().running()


@pytest.mark.item("H15")
def test_a_work_that_vanishes_while_running_is_asked_causes_no_error(
    journal: Journal,
) -> None:
    pool = fresh()
    works = pool.enqueue_action_batch(functions.echo, [None] * 2)
    begin(pool)

    def vanish(execute: Callable[..., object], sql: str, *arguments: object) -> object:
        # Between the read of the slots and the read of the names.
        if sql.startswith("SELECT") and "workpool_work" in sql:
            execute('DELETE FROM "workpool_work"', (), *arguments[1:])
        return execute(sql, *arguments)

    with connections["default"].execute_wrapper(vanish):
        found = pool.running()

    assert [work.pk for work in works] == [one.work_id for one in found]
    assert ["<unknown>"] * 2 == [one.name for one in found]
    assert not Work.objects.using("default").exists()


@pytest.mark.item("H17")
def test_debug_counts_of_a_pool_without_works_are_zero() -> None:
    assert dict.fromkeys(KEYS, 0) == fresh().debug_counts()


@pytest.mark.item("H17")
def test_debug_counts_are_the_numbers_of_rows_of_the_pool(journal: Journal) -> None:
    pool, other = _mixed(), _mixed()

    counts = pool.debug_counts()

    assert {
        "pendingStart": 2,
        "inProgressWork": 3,
        "pendingCompletion": 1,
        "pendingCancelation": 1,
        "active": 1,
    } == counts
    assert counts == other.debug_counts()
    assert [4, 6, 2, 2] == [
        count("PendingStart"),
        count("InProgressWork"),
        count("PendingCompletion"),
        count("PendingCancelation"),
    ]


@pytest.mark.item("H17")
def test_debug_counts_are_zero_again_when_all_has_ended(journal: Journal) -> None:
    pool = _mixed()

    testing.run_pass(pool.name)
    # What its worker had fetched and not begun goes to the next worker.
    testing.inline_executor().close()
    testing.drain(pool.name)

    assert dict.fromkeys(KEYS, 0) == pool.debug_counts()


@pytest.mark.item("H18")
def test_diagnostics_of_a_pool_that_nothing_is_known_of_are_its_options() -> None:
    found = fresh(max_parallelism=4).diagnostics()

    assert (4, False, "", None) == (
        found.max_parallelism,
        found.paused,
        found.paused_reason,
        found.paused_until,
    )
    assert ("idle", None, False) == (
        found.loop_state,
        found.loop_run_at,
        found.saturated,
    )
    assert (0, 0, 0, 0, 0, 4) == (
        found.waiting,
        found.running,
        found.completing,
        found.canceling,
        found.slots_used,
        found.spare_capacity,
    )


@pytest.mark.item("H18")
def test_diagnostics_tell_limit_pause_loop_and_slots(journal: Journal) -> None:
    pool = _mixed()

    before = pool.diagnostics()
    pool.update(max_parallelism=7)
    pool.pause("maintenance")
    after = pool.diagnostics()

    assert (2, 2, 1, 1, 3, 0) == (
        before.waiting,
        before.running,
        before.completing,
        before.canceling,
        before.slots_used,
        before.spare_capacity,
    )
    assert ("running", True) == (before.loop_state, before.saturated)
    assert (3, 7) == (before.max_parallelism, after.max_parallelism)
    assert (False, True) == (before.paused, after.paused)
    assert "maintenance" == after.paused_reason
    assert (3, 4) == (after.slots_used, after.spare_capacity)


@pytest.mark.item("H18")
def test_the_spare_capacity_of_a_limit_that_was_lowered_is_not_negative(
    journal: Journal,
) -> None:
    pool = _mixed()

    pool.update(max_parallelism=1)

    assert (3, 0) == (pool.diagnostics().slots_used, pool.diagnostics().spare_capacity)
