"""Protocol R3 and R7: how our transactions begin, and errors on their commit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from django.db import InterfaceError, OperationalError, connections

from django_workpool.db import serial
from django_workpool.engine import complete
from django_workpool.models import (
    CompletedWork,
    MainLoop,
    PendingCancelation,
)
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.app.models import Effect
from tests.concurrency.sessions import (
    execute,
    execution,
    in_progress,
    passing,
    settings,
    standing,
)
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.sessions import beside
from tests.conformance.stumbling import NO_NETS, armed
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.engine.complete import Assignment
    from tests.journal import Journal
    from tests.live import LiveRunner

    Execute = Callable[..., object]
    Wrapper = Callable[..., object]

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])

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


def generation(pool: Workpool) -> int:
    """Return the generation of a pool's loop."""
    return MainLoop.objects.using("default").get(pk=pool.name).generation


# --- R3 -------------------------------------------------------------------------------


def units(pool: Workpool, run: Assignment) -> dict[str, Callable[[], object]]:
    """Return our transactions; a mutation's is its function's, and keeps its level."""
    executor = inline_executor()
    return {
        "enqueue": lambda: pool.enqueue_action(functions.echo),
        "cancel": lambda: pool.cancel(run.work_id),
        "pass": passing(pool),
        "read-back": lambda: complete.is_committed("default", run),
        "outbox": lambda: complete.write(
            "default",
            [complete.canceled(run, executor.worker.pk, executor._clock.now())],
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
        seen: list[str] = []
        found[name] = seen
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
def test_r03_no_writer_comes_between_what_we_read_and_what_we_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    monkeypatch.setattr(connections["default"], "transaction_mode", "DEFERRED")

    with serial.unit("default"):
        pool.status(work)
        with pytest.raises(OperationalError, match="locked"):
            write_at_once()
        pool.cancel(work)

    assert 1 == PendingCancelation.objects.using("default").count()


def write_at_once() -> None:
    """Begin to write in another session, and wait for nobody."""
    rival = connections.create_connection("default")
    options = rival.settings_dict["OPTIONS"]
    rival.settings_dict = {**rival.settings_dict, "OPTIONS": {**options, "timeout": 0}}
    try:
        with rival.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
    finally:
        rival.close()


@pytest.mark.vendor("postgresql")
def test_r03_our_transactions_are_read_committed_whatever_the_default() -> None:
    pool = fresh()
    pool.enqueue_mutation(functions.effect)
    (run,) = begin(pool)
    found: dict[str, set[str]] = {}

    def watched() -> None:
        execute(REPEATABLE_READ)
        for name, call in units(pool, run).items():
            levels: set[str] = set()
            found[name] = levels
            with connections["default"].execute_wrapper(watching(levels)):
                call()

    with beside(watched) as done:
        done()

    assert [{"read committed"}] * len(found) == list(found.values())


def watching(levels: set[str]) -> Wrapper:
    """Return a wrapper that notes the isolation of each statement in a transaction."""

    def wrapper(execute: Execute, sql: str, *rest: Any) -> object:
        answer = execute(sql, *rest)
        session: Any = connections["default"]
        if session.in_atomic_block and re.match(
            "SELECT|INSERT|DELETE|UPDATE|WITH", sql
        ):
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
        "lock_timeout": "1s",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
    } == found
    assert before == settings(*SETTINGS)


# --- R7 -------------------------------------------------------------------------------


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
    # Without backstop and polls: it looks again by itself, and lets its workers look.
    lost = "pass.after_commit=raise:django.db.utils.InterfaceError@runner"
    live(WORKPOOL_FAILPOINTS=lost, **NO_NETS)
    pool = fresh(max_parallelism=2)

    works = pool.enqueue_action_batch(functions.echo, [None] * 6)
    ends = [pool.wait(work, timeout=60) for work in works]

    assert {"success"} == {one.completion_status for one in ends}
    assert sorted(ids(works)) == sorted(journal.begins(pool.name))
