"""Protocol R1 and R2: what a pass reads, and what it never waits for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_workpool.engine import complete, workers
from django_workpool.models import (
    InProgressWork,
    MainLoop,
    PendingCancelation,
    Work,
)
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.app.models import Effect
from tests.concurrency.sessions import (
    execute,
    execution,
    in_progress,
    passed,
    passing,
    standing,
)
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.sessions import beside, statements
from tests.conformance.stumbling import wait_reached
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.journal import Journal
    from tests.live import LiveRunner

    Execute = Callable[..., object]
    Wrapper = Callable[..., object]

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])

REPEATABLE_READ = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ"
)
TABLE = re.compile(r"FROM workpool_(\w+)")


def generation(pool: Workpool) -> int:
    """Return the generation of a pool's loop."""
    return MainLoop.objects.using("default").get(pk=pool.name).generation


# --- R1 -------------------------------------------------------------------------------


def test_r01_reads_follow_the_lock_and_come_in_their_order() -> None:
    pool = fresh()
    pool.enqueue_action(functions.echo)
    begin(pool)
    order = (
        "main_loop",
        "in_progress_work",
        "pending_completion",
        "pending_cancelation",
        "pending_start",
    )

    with statements() as executed:
        run_pass(pool.name, with_worker=False)

    reads = [TABLE.findall(sql)[0] for sql in executed if sql.startswith("SELECT")]
    assert list(order) == [table for table in reads if table in order]


def r01_scene(pool: Workpool, journal: Journal, setting: str) -> None:
    """Commit an ending, a start and a cancelation once a pass has its lock."""
    pool.enqueue_action(functions.echo)
    (run,) = begin(pool)

    def pass_() -> None:
        execute(setting)
        run_pass(pool.name, with_worker=False)

    with standing(pass_, "pass.locked", journal) as goes_on:
        end(run)
        pool.enqueue_action(functions.echo, name="second")
        pool.cancel(pool.enqueue_action(functions.echo, name="third"))
        goes_on()


@pytest.mark.vendor("postgresql")
@pytest.mark.parametrize(
    "setting", ["SELECT 1", REPEATABLE_READ], ids=["read-committed", "r03-repeatable"]
)
def test_r01_what_is_committed_after_the_lock_is_part_of_the_pass(
    setting: str, journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)

    r01_scene(pool, journal, setting)

    works = Work.objects.using("default").order_by("enqueued_at")
    assert ["completed", "in_progress", "completed"] == [
        pool.status(work).kind for work in works
    ]
    assert ["success", None, "canceled"] == [
        pool.status(work).completion_status for work in works
    ]
    assert 1 == len(in_progress(pool))


@pytest.mark.vendor("postgresql")
def test_r01_a_second_pass_leaves_at_once_while_the_first_is_open(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    first, second = pool.enqueue_action_batch(functions.echo, [None, None])
    # The row of the loop is there: a new one would have to be waited for.
    run_pass(pool.name)

    with standing(passing(pool), "pass.locked", journal) as goes_on:
        other = run_pass(pool.name, with_worker=False)
        goes_on()

    assert other is None
    assert ids([first]) == list(in_progress(pool))
    assert "pending" == pool.status(second).kind


def test_r01_a_pass_that_waited_for_another_starts_nothing_beyond_the_limit(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    first, second = pool.enqueue_action_batch(functions.echo, [None, None])
    inline_executor()

    with (
        standing(passing(pool), "pass.before_commit", journal) as goes_on,
        beside(passing(pool)) as too,
    ):
        generations = {one.generation for one in (goes_on(), too()) if one}

    assert ids([first]) == list(in_progress(pool))
    assert "pending" == pool.status(second).kind
    assert generation(pool) == max(generations)


@pytest.mark.vendor("postgresql")
@pytest.mark.parametrize("point", ["recovery.after_read", "completions.after_read"])
def test_r01_a_work_given_back_while_a_pass_reads_is_pending_and_starts_again(
    point: str, journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)
    work, behind = pool.enqueue_action_batch(functions.echo, [None, None])
    (run,) = begin(pool)

    with standing(passing(pool), point, journal) as goes_on:
        complete.give_back("default", [run.key])
        found = passed(goes_on())

    assert [work.pk] == [start.work_id for start in found.plan.starts]
    assert ids([work]) == list(in_progress(pool))
    assert run.hand_out < in_progress(pool)[str(work.pk)]
    assert "pending" == pool.status(behind).kind


@pytest.mark.vendor("postgresql")
def test_r01_a_work_given_back_while_its_worker_is_recovered_is_not_lost(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.echo)
    (run,) = begin(pool)
    worker_died()

    with standing(passing(pool), "recovery.after_read", journal) as goes_on:
        complete.give_back("default", [run.key])
        found = passed(goes_on())
    drain(pool.name)

    assert ((), ()) == (found.plan.lost, found.plan.given_back)
    assert "success" == pool.status(work).completion_status
    assert ids([work]) == journal.begins(pool.name)


def worker_died() -> None:
    """Prove the death of the inline worker; all that it held counts as begun."""
    worker = inline_executor().worker.pk
    workers.ended("default", worker, is_dead=True, last_exit="exit code 1", begun=None)


# --- R2 -------------------------------------------------------------------------------


@pytest.mark.vendor("postgresql")
def test_r02_a_pass_goes_past_a_mutation_that_stands_behind_its_fence(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=2)
    frozen = pool.enqueue_mutation(functions.effect)
    other = pool.enqueue_action(functions.echo)
    frozen_run, other_run = begin(pool)
    due = pool.enqueue_action(functions.echo)

    with standing(execution(frozen_run), "mutation.after_lock", journal) as goes_on:
        end(other_run)
        pool.cancel(frozen)
        found = passed(run_pass(pool.name, with_worker=False))
        requests = PendingCancelation.objects.using("default").count()
        flag = (
            InProgressWork.objects.using("default").get(pk=frozen.pk).cancel_requested
        )
        goes_on()
    drain(pool.name)

    assert [other.pk] == [entry.work_id for entry in found.plan.completions]
    assert [due.pk] == [start.work_id for start in found.plan.starts]
    assert (1, False) == (requests, flag)
    assert "success" == pool.status(frozen).completion_status
    assert 1 == Effect.objects.using("default").count()
    assert 0 == PendingCancelation.objects.using("default").count()


@pytest.mark.vendor("postgresql")
def test_r02_recovery_leaves_a_mutation_behind_its_fence_to_the_next_pass(
    journal: Journal,
) -> None:
    pool = fresh()
    frozen = pool.enqueue_mutation(functions.effect)
    other = pool.enqueue_action(functions.echo)
    frozen_run, _ = begin(pool)

    with standing(execution(frozen_run), "mutation.after_lock", journal) as goes_on:
        worker_died()
        found = passed(run_pass(pool.name, with_worker=False))
        goes_on()
    drain(pool.name)

    assert [other.pk] == [loss.work_id for loss in found.plan.lost]
    assert () == found.plan.given_back
    assert "success" == pool.status(frozen).completion_status
    assert 0 == Work.objects.using("default").get(pk=frozen.pk).deaths
    assert 1 == Effect.objects.using("default").count()
    assert ids([frozen]) == journal.begins(pool.name)


@pytest.mark.vendor("postgresql")
def test_r02_a_pass_does_not_need_the_work_rows_of_running_attempts(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=2)
    held, other = pool.enqueue_action_batch(functions.echo, [None, None])
    _, other_run = begin(pool)
    due = pool.enqueue_action(functions.echo)
    end(other_run)
    pool.cancel(held)

    with transaction.atomic(using="default"):
        rows = Work.objects.using("default").select_for_update()
        locked = list(rows.filter(pk__in=[held.pk, other.pk]))
        with beside(passing(pool)) as done:
            found = passed(done())

    assert 2 == len(locked)
    assert [held.pk] == [work_id for work_id, _ in found.plan.flagged]
    assert [other.pk] == [entry.work_id for entry in found.plan.completions]
    assert [due.pk] == [start.work_id for start in found.plan.starts]


@pytest.mark.vendor("postgresql")
def test_r02_a_frozen_mutation_with_a_request_does_not_let_the_loop_spin(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live(WORKPOOL_FAILPOINTS="mutation.after_lock=wait:locked@worker")
    pool, clockwork = fresh(), fresh("clockwork", max_parallelism=1)
    frozen = pool.enqueue_mutation(functions.effect)
    wait_reached(journal, "locked")
    pool.cancel(frozen)

    before = generation(pool)
    # Half a second by another clock than ours: works of 50 ms, one after the other.
    works = clockwork.enqueue_action_batch(functions.sleep, [{"seconds": 0.05}] * 10)
    ends = [clockwork.wait(work, timeout=30) for work in works]
    passes = generation(pool) - before
    journal.release("locked")
    pool.wait(frozen, timeout=30)
    first, last = ends[0].started_at, ends[-1].completed_at

    assert first is not None
    assert last is not None
    # It looks again every 100 ms.
    assert passes <= 5 + (last - first).total_seconds() * 10
