"""Protocol, sections 1 and 8: the interleavings around one pass."""

from __future__ import annotations

import re
import time
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from django.db import InterfaceError, OperationalError, connections, transaction

from django_workpool.db import serial
from django_workpool.engine import complete, workers
from django_workpool.models import (
    CompletedWork,
    InProgressWork,
    MainLoop,
    PendingCancelation,
    PendingStart,
    Work,
)
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.app.models import Effect
from tests.concurrency.sessions import (
    execute,
    passed,
    passing,
    settings,
    standing,
)
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.sessions import beside, statements
from tests.conformance.stumbling import armed, wait_reached
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.engine.complete import Assignment
    from tests.journal import Journal
    from tests.live import LiveRunner

    Execute = Callable[..., object]
    Wrapper = Callable[..., object]

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

REPEATABLE_READ = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ"
)
SETTINGS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "enable_seqscan",
    "enable_bitmapscan",
)
TABLE = re.compile(r"FROM workpool_(\w+)")


def in_progress(pool: Workpool) -> dict[str, int]:
    """Return the hand-outs of the works in progress."""
    rows = InProgressWork.objects.using("default").for_pool(pool.name)
    return {str(work_id): number for work_id, number in rows.values_list("pk", "hand_out")}


def generation(pool: Workpool) -> int:
    """Return the generation of a pool's loop."""
    return MainLoop.objects.using("default").get(pk=pool.name).generation


# --- R1 -----------------------------------------------------------------------------


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


# --- R2 -----------------------------------------------------------------------------


def execution(run: Assignment) -> Callable[[], None]:
    """Return what executes a hand-out in another session and writes its completion."""
    executor = inline_executor()
    return lambda: executor.finish(executor.execute(run))


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
        flag = InProgressWork.objects.using("default").get(pk=frozen.pk).cancel_requested
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


# --- R3 -----------------------------------------------------------------------------


def units(pool: Workpool, run: Assignment) -> dict[str, Callable[[], object]]:
    """Return our transactions; a mutation's is its function's, and keeps its level."""
    executor = inline_executor()
    return {
        "enqueue": lambda: pool.enqueue_action(functions.echo),
        "cancel": lambda: pool.cancel(run.work_id),
        "pass": passing(pool),
        "read-back": lambda: complete.is_committed("default", run),
        "outbox": lambda: complete.write(
            "default", [complete.canceled(run, executor.worker.pk, executor._clock.now())]
        ),
        "give-back": lambda: complete.give_back("default", [run.key]),
    }


@pytest.mark.vendor("sqlite")
def test_r03_on_sqlite_our_transactions_take_the_lock_before_they_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = fresh()
    pool.enqueue_mutation(functions.effect)
    (run,) = begin(pool)
    found: dict[str, list[str]] = {}
    # What a project sets that knows nothing of us.
    monkeypatch.setattr(connections["default"], "transaction_mode", "DEFERRED")

    for name, call in units(pool, run).items():
        found[name] = seen = []
        with connections["default"].execute_wrapper(noting(seen, "BEGIN")):
            call()

    assert {name: {"BEGIN IMMEDIATE"} for name in found} == {
        name: set(seen) for name, seen in found.items()
    }


def noting(seen: list[str], start: str) -> Wrapper:
    """Return a wrapper that notes the statements that begin so."""

    def wrapper(execute: Execute, sql: str, *rest: Any) -> object:
        if sql.startswith(start):
            seen.append(sql)
        return execute(sql, *rest)

    return wrapper


@pytest.mark.vendor("sqlite")
def test_r03_a_writer_that_comes_after_our_begin_waits_instead_of_breaking_us() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    connections["default"].transaction_mode = "DEFERRED"  # type: ignore[attr-defined]

    with beside(lambda: pool.enqueue_action(functions.echo)) as enqueued:
        with serial.unit("default"):
            pool.status(work)
            pool.cancel(work)
        enqueued()

    assert 2 == Work.objects.using("default").count()
    assert 1 == PendingCancelation.objects.using("default").count()


@pytest.mark.vendor("postgresql")
def test_r03_our_transactions_are_read_committed_whatever_the_default() -> None:
    pool = fresh()
    pool.enqueue_mutation(functions.effect)
    (run,) = begin(pool)
    found: dict[str, set[str]] = {}

    def watched() -> None:
        execute(REPEATABLE_READ)
        for name, call in units(pool, run).items():
            found[name] = levels = set()
            with connections["default"].execute_wrapper(watching(levels)):
                call()

    with beside(watched) as done:
        done()

    assert dict.fromkeys(found, {"read committed"}) == found


def watching(levels: set[str]) -> Wrapper:
    """Return a wrapper that notes the isolation of each statement in a transaction."""

    def wrapper(execute: Execute, sql: str, *rest: Any) -> object:
        answer = execute(sql, *rest)
        session: Any = connections["default"]
        if session.in_atomic_block and re.match("SELECT|INSERT|DELETE|UPDATE|WITH", sql):
            row = session.connection.execute("SHOW transaction_isolation").fetchone()
            levels.add(row[0])
        return answer

    return wrapper


@pytest.mark.vendor("postgresql")
def test_r03_a_read_back_that_waited_for_a_commit_sees_it(journal: Journal) -> None:
    pool = fresh()
    pool.enqueue_mutation(functions.effect)
    (run,) = begin(pool)

    def read_back() -> bool | None:
        execute(REPEATABLE_READ)
        return complete.is_committed("default", run)

    with (
        standing(execution(run), "mutation.before_commit", journal) as goes_on,
        beside(read_back) as answered,
    ):
        wait_blocked()
        goes_on()
        answer = answered()

    assert answer is True
    assert 1 == Effect.objects.using("default").count()


def wait_blocked() -> None:
    """Wait until a session of this database waits for a lock of another one."""
    def is_blocked() -> bool:
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            )
            return bool(cursor.fetchone()[0])

    until(is_blocked, "a session to wait for a lock")


@pytest.mark.vendor("postgresql")
def test_r03_a_pass_sets_its_limits_and_plans_for_itself_alone() -> None:
    pool = fresh()
    found: dict[str, str] = {}
    before = settings(*SETTINGS)

    def look(execute: Execute, sql: str, *rest: Any) -> object:
        answer = execute(sql, *rest)
        if "FOR UPDATE SKIP LOCKED" in sql and not found:
            found.update(settings(*SETTINGS))
        return answer

    with connections["default"].execute_wrapper(look):
        run_pass(pool.name, with_worker=False)

    assert {
        **dict.fromkeys(SETTINGS[:3], "15s"),
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
    } == found
    assert before == settings(*SETTINGS)


# --- R7 -----------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["pass.before_commit", "pass.after_commit"])
def test_r07_a_pass_made_again_after_an_error_on_commit_does_nothing_twice(
    point: str, journal: Journal
) -> None:
    pool = fresh(max_parallelism=2)
    done, running, due = pool.enqueue_action_batch(functions.echo, [None] * 3)
    done_run, running_run = begin(pool)
    end(done_run)
    before = generation(pool)

    with (
        armed(f"{point}=raise:django.db.utils.InterfaceError", journal),
        pytest.raises(InterfaceError),
    ):
        run_pass(pool.name, with_worker=False)
    committed = in_progress(pool)
    again = [run_pass(pool.name, with_worker=False) for _ in range(2)]
    end(running_run)
    drain(pool.name)

    numbers = [one.generation for one in again if one is not None]
    first = before + 1 if point == "pass.before_commit" else before + 2
    assert [first, first + 1] == numbers
    assert str(running.pk) in committed
    assert (point == "pass.after_commit") == (str(due.pk) in committed)
    assert sorted(ids([done, running, due])) == sorted(journal.begins(pool.name))
    assert 3 == CompletedWork.objects.using("default").count()


@pytest.mark.vendor("postgresql")
def test_r07_a_session_that_is_ended_before_its_commit_leaves_nothing_of_its_pass(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    before = in_progress(pool)
    complete.give_back("default", [(work.pk, before[str(work.pk)])])

    with standing(passing(pool), "pass.before_commit", journal) as goes_on:
        execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND state = 'idle in transaction'"
            " AND datname = current_database()"
        )
        with pytest.raises(OperationalError):
            goes_on()
    left = in_progress(pool)
    drain(pool.name)

    assert {} == left
    assert "success" == pool.status(work).completion_status
    assert ids([work]) == journal.begins(pool.name)


def test_r07_a_runner_that_never_hears_of_its_commits_still_runs_everything_once(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live(
        WORKPOOL_FAILPOINTS="pass.after_commit=raise:django.db.utils.InterfaceError@runner"
    )
    pool = fresh(max_parallelism=2)

    works = pool.enqueue_action_batch(functions.echo, [None] * 6)
    ends = [pool.wait(work, timeout=60) for work in works]

    assert {"success"} == {one.completion_status for one in ends}
    assert sorted(ids(works)) == sorted(journal.begins(pool.name))


# --- R8 -----------------------------------------------------------------------------


def test_r08_a_row_that_cannot_be_moved_is_moved_alone_and_named_once(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(max_parallelism=3)
    works = pool.enqueue_action_batch(functions.echo, [None] * 3)
    runs = begin(pool)
    due = pool.enqueue_action_batch(functions.echo, [None] * 3)
    for run in runs:
        end(run)
    CompletedWork.objects.using("default").create(
        work_id=works[1].pk,
        pool=pool.name,
        completion_status="error",
        completed_at=works[1].enqueued_at,
    )

    run_pass(pool.name, with_worker=False)

    assert ["success", "error", "success"] == [
        pool.status(work).completion_status for work in works
    ]
    assert sorted(ids(due)) == sorted(in_progress(pool))
    assert 1 == caplog.text.count("cannot be moved")
    assert str(works[1].pk) in caplog.text
    assert str(works[0].pk) not in caplog.text


# --- R9 -----------------------------------------------------------------------------


def test_r09_no_queue_table_has_a_foreign_key_and_requests_have_no_unique_key() -> None:
    connection = connections["default"]
    foreign: list[str] = []
    unique: dict[str, list[list[str]]] = {}

    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        for name in [name for name in names if name.startswith("workpool_")]:
            found = connection.introspection.get_constraints(cursor, name).values()
            foreign += [name for one in found if one["foreign_key"]]
            unique[name] = [
                one["columns"]
                for one in found
                if one["unique"] and not one["primary_key"]
            ]

    assert [] == foreign
    assert [] == unique["workpool_pending_cancelation"]
    assert [] == unique["workpool_pending_completion"]
    assert [["pool", "lane", "place"]] == unique["workpool_in_progress_work"]


@pytest.mark.vendor("postgresql")
def test_r09_rivals_with_open_transactions_do_not_block_each_other() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    (run,) = begin(pool)
    executor = inline_executor()
    ending = complete.canceled(run, executor.worker.pk, executor._clock.now())

    def rival() -> None:
        pool.cancel(work)
        complete.write("default", [ending])

    with transaction.atomic(using="default"):
        pool.cancel(work)
        complete.write("default", [ending])
        with beside(rival) as done:
            done()
    drain(pool.name)

    assert "canceled" == pool.status(work).completion_status
    assert 1 == CompletedWork.objects.using("default").count()


# --- R10 ----------------------------------------------------------------------------


def test_r10_a_loop_that_was_made_again_never_repeats_a_number(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.echo)
    (old,) = begin(pool)
    complete.give_back("default", [old.key])
    MainLoop.objects.using("default").filter(pk=pool.name).delete()

    (new,) = begin(pool)
    # The former hand-out was not dead: it ends only now.
    end(old)
    found = passed(run_pass(pool.name, with_worker=False))
    still = in_progress(pool)
    end(new)
    drain(pool.name)

    assert old.hand_out < new.hand_out
    assert [""] == [entry.status for entry in found.plan.completions]
    assert {str(work.pk): new.hand_out} == still
    assert "late" in caplog.text
    assert 1 == CompletedWork.objects.using("default").count()


def test_r10_two_first_passes_at_once_give_out_different_numbers(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=2)
    pool.enqueue_action(functions.echo)
    inline_executor()

    with (
        standing(passing(pool), "pass.before_commit", journal) as goes_on,
        beside(lambda: (pool.enqueue_action(functions.echo), passing(pool)())) as too,
    ):
        goes_on()
        too()
    drain(pool.name)
    run_pass(pool.name)

    assert 2 == len(journal.begins(pool.name))
    assert 0 == PendingStart.objects.using("default").count()
    assert [] == journal.overlaps()


# --- R39 ----------------------------------------------------------------------------


@pytest.mark.vendor("sqlite")
def test_r39_a_runner_in_a_long_backlog_leaves_the_lock_to_others(
    live: Callable[..., LiveRunner],
) -> None:
    # Each pass holds the lock for a time in which a busy handler looks seldom.
    live(WORKPOOL_FAILPOINTS="pass.locked=sleep:0.15@runner")
    pool = fresh(max_parallelism=1)
    pool.enqueue_action_batch(functions.echo, [None] * 200)

    written = [pool.enqueue_action(functions.echo) for _ in range(8)]

    assert 8 == len(written)
    # Without a rest they would have to wait for most of the backlog.
    assert 170 < pool.queue_length()


@pytest.mark.vendor("sqlite")
def test_r39_the_rest_is_as_long_as_the_lock_was_held_not_as_it_was_waited_for() -> (
    None
):
    pool = fresh()
    inline_executor()

    with beside(passing(pool)) as done:
        with transaction.atomic(using="default"):
            pool.enqueue_action(functions.echo)
            waited = hold_the_lock()
        found = passed(done())

    assert found.milliseconds < waited


def hold_the_lock() -> float:
    """Hold the lock of SQLite for a while; return how long, in milliseconds."""
    began = time.monotonic()
    Event().wait(0.5)
    return (time.monotonic() - began) * 1000
