"""Conformance group J: the loop and its passes, without a process."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_workpool import testing
from django_workpool.models import InProgressWork, MainLoop, Work
from tests.app import functions
from tests.conformance.pools import fresh
from tests.conformance.stumbling import armed, is_reached, loop_state, wait_reached
from tests.conformance.tables import count
from tests.conformance.threads import closing
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.engine.loop import Passed
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

PASSES = 10


def _set_loop(pool: Workpool, state: str, *, saturated: bool = False) -> None:
    """Leave the loop's row as a pass would have left it."""
    testing.run_pass(pool.name)
    rows = MainLoop.objects.using("default").filter(pk=pool.name)
    rows.update(state=state, saturated=saturated)


def _loop_row(pool: Workpool) -> dict[str, Any]:
    return {**MainLoop.objects.using("default").values().get(pk=pool.name)}


@pytest.mark.item("J1")
def test_a_settled_loop_is_idle_without_a_time(journal: Journal) -> None:
    pool = fresh()
    pool.enqueue_action_batch(functions.echo, [None] * 3)

    testing.drain(pool.name)

    found = pool.diagnostics()
    assert ("idle", None) == (found.loop_state, found.loop_run_at)
    row = _loop_row(pool)
    assert ("idle", None) == (row["state"], row["run_at"])


@pytest.mark.item("J3")
@pytest.mark.parametrize(
    ("state", "saturated", "wakes"),
    [
        ("idle", False, True),
        ("scheduled", False, True),
        ("running", False, False),
        ("idle", True, False),
    ],
    ids=["idle", "scheduled", "running", "saturated"],
)
def test_an_enqueue_neither_writes_nor_locks_the_loop_and_wakes_only_a_sleeper(
    state: str, saturated: bool, wakes: bool, journal: Journal
) -> None:
    pool = fresh()
    _set_loop(pool, state, saturated=saturated)
    before = _loop_row(pool)
    # Whoever waits here goes on at once: it only witnesses that somebody was woken.
    journal.release("kick")

    with (
        armed("kick.before_send=wait:kick", journal),
        CaptureQueriesContext(connections["default"]) as queries,
    ):
        pool.enqueue_action(functions.echo)

    about_the_loop = [
        query["sql"]
        for query in queries.captured_queries
        if "workpool_main_loop" in query["sql"]
    ]
    assert about_the_loop
    assert all(sql.startswith("SELECT") for sql in about_the_loop)
    assert not any("FOR UPDATE" in sql for sql in about_the_loop)
    assert before == _loop_row(pool)
    assert wakes == is_reached(journal, "kick")


@pytest.mark.item("J3")
def test_an_enqueue_wakes_a_pool_without_a_loop(journal: Journal) -> None:
    pool = fresh()
    journal.release("kick")

    with armed("kick.before_send=wait:kick", journal):
        pool.enqueue_action(functions.echo)

    assert is_reached(journal, "kick")
    assert 0 == count("MainLoop")


@pytest.mark.item("J3")
@pytest.mark.vendor("postgresql")  # SQLite has one lock for everything
def test_an_enqueue_does_not_wait_for_a_pass_that_holds_the_loop(
    journal: Journal,
) -> None:
    pool = fresh()
    pool.enqueue_action(functions.echo)
    testing.drain(pool.name)

    with (
        armed("pass.before_commit=wait:pass", journal),
        ThreadPoolExecutor(1) as other,
    ):
        passing = other.submit(closing, lambda: testing.run_pass(pool.name))
        wait_reached(journal, "pass")
        work = pool.enqueue_action(functions.echo)
        was_open = not passing.done()
        journal.release("pass")
        passing.result()

    assert was_open
    assert "pending" == pool.status(work).kind


class _Watch:
    """Records when each thread holds a pool's loop: from its lock to its write."""

    def __init__(self) -> None:
        self.holds: list[tuple[int, int]] = []
        self._began = threading.local()

    def __call__(self, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        is_lock = "workpool_main_loop" in sql and sql.startswith("SELECT")
        if sql.startswith("UPDATE workpool_main_loop"):
            self.holds.append((self._began.at, time.monotonic_ns()))
        found = execute(sql, *rest)
        if is_lock:
            self._began.at = time.monotonic_ns()
        return found


@pytest.mark.item("J4")
def test_ten_passes_begun_at_once_never_overlap_and_do_nothing_twice(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1_000)
    testing.inline_executor()
    works = pool.enqueue_action_batch(functions.echo, [None] * 200)
    first = testing.run_pass(pool.name)
    watch, start = _Watch(), threading.Barrier(PASSES)

    def passes() -> list[Passed | None]:
        with connections["default"].execute_wrapper(watch):
            found = []
            for _ in range(5):
                start.wait()
                pool.enqueue_action(functions.echo)
                found.append(testing.run_pass(pool.name, with_worker=False))
            return found

    with ThreadPoolExecutor(PASSES) as others:
        runs = [others.submit(closing, passes) for _ in range(PASSES)]
        found = [passed for run in runs for passed in run.result()]
    last = testing.run_pass(pool.name)

    committed = sorted(
        (passed for passed in [first, *found, last] if passed is not None),
        key=lambda passed: passed.generation,
    )
    generations = [passed.generation for passed in committed]
    # Each committed pass raises the generation by one.
    lowest = generations[0]
    assert list(range(lowest, lowest + len(committed))) == generations
    assert generations[-1] == _loop_row(pool)["generation"]
    # No two held the loop at the same instant.
    holds = sorted(watch.holds)
    assert len(committed) - 2 == len(holds)
    assert [] == [(one, two) for one, two in pairwise(holds) if two[0] < one[1]]
    # Every work was started once, in a lane of its own.
    starts = Counter(entry.work_id for done in committed for entry in done.plan.starts)
    everything = set(Work.objects.using("default").values_list("pk", flat=True))
    assert everything == set(starts)
    assert {work.pk for work in works} < everything
    assert {1} == set(starts.values())
    lanes = InProgressWork.objects.using("default").values_list("lane", flat=True)
    assert sorted(lanes) == list(range(1, 251))


@pytest.mark.item("J9")
def test_a_missing_loop_is_made_again_and_the_works_run(journal: Journal) -> None:
    pool = fresh(max_parallelism=2)
    works = pool.enqueue_action_batch(functions.echo, [None] * 4)
    before = testing.run_pass(pool.name)
    MainLoop.objects.using("default").filter(pk=pool.name).delete()

    # Without a name the drain looks for pools as a runner does.
    testing.drain()

    assert ["success"] * 4 == [pool.result(work).kind for work in works]
    assert sorted(ids(works)) == sorted(journal.begins())
    assert before is not None
    # Hand-out numbers rise, so no completion of before can mean a work of after.
    assert before.generation < _loop_row(pool)["generation"]
    assert "idle" == loop_state(pool)


@pytest.mark.item("J10")
@pytest.mark.parametrize(
    "stored",
    [
        "",
        "no json",
        "[]",
        '{"args": [], "kwargs": 7}',
        '{"args": [], "kwargs": {"x": 1}}',
    ],
)
def test_a_work_whose_arguments_cannot_be_read_ends_as_error_and_harms_nobody(
    stored: str, journal: Journal
) -> None:
    pool = fresh()
    before, poison, after = pool.enqueue_action_batch(functions.echo, [None] * 3)
    Work.objects.using("default").filter(pk=poison.pk).update(fn_args=stored)

    testing.drain(pool.name)

    assert ["success", "error", "success"] == [
        pool.result(work).kind for work in (before, poison, after)
    ]
    assert pool.result(poison).error_type
    assert ids([before, after]) == journal.begins()


@pytest.mark.item("J10")
def test_a_work_whose_arguments_cannot_be_read_is_logged_once(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh()
    poison, _ = pool.enqueue_action_batch(functions.echo, [None] * 2)
    Work.objects.using("default").filter(pk=poison.pk).update(fn_args="no json")

    with caplog.at_level(logging.WARNING, logger="django_workpool"):
        testing.drain(pool.name)
        testing.drain(pool.name)

    told = [r for r in caplog.records if str(poison.pk) in str(vars(r))]
    assert 1 == len(told)
    assert logging.ERROR == told[0].levelno


@pytest.mark.item("J10")
def test_a_work_whose_row_is_gone_leaves_the_queue_and_harms_nobody(
    journal: Journal,
) -> None:
    pool = fresh()
    before, gone, after = pool.enqueue_action_batch(functions.echo, [None] * 3)
    Work.objects.using("default").filter(pk=gone.pk).delete()

    testing.drain(pool.name)

    assert ids([before, after]) == journal.begins()
    assert ["success", "success"] == [pool.result(w).kind for w in (before, after)]
    assert [0, 0, 0] == [
        count("PendingStart"),
        count("InProgressWork"),
        count("PendingCompletion"),
    ]
    assert [None] == pool.status_batch([gone])
