"""Conformance group J: loops and processes that live."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from django.db import connections

from django_workpool.models import InProgressWork, MainLoop
from tests.app import functions, life_functions
from tests.conformance.pools import fresh
from tests.conformance.stumbling import (
    NO_NETS,
    armed,
    wait_asleep,
    wait_reached,
)
from tests.conformance.threads import closing
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

PATIENCE = 30


def _run(pool: Workpool) -> Work:
    """Enqueue one work and wait for its end."""
    work = pool.enqueue_action(functions.echo)
    pool.wait(work, timeout=PATIENCE)
    return work


def _generation(pool: Workpool) -> int:
    return MainLoop.objects.using("default").get(pk=pool.name).generation


@pytest.mark.item("J1")
def test_no_pass_of_a_settled_pool_runs_while_others_work(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live()
    quiet, busy = fresh("quiet"), fresh("busy")
    _run(quiet)
    _run(busy)
    wait_asleep(quiet)
    # A pass that another kick had asked for may still follow: let the loop's thread,
    # which serves its pools in turn, come round once.
    _run(busy)
    before = (_generation(quiet), _generation(busy))

    [_run(busy) for _ in range(20)]

    assert before[0] == _generation(quiet)
    assert before[1] + 20 <= _generation(busy)
    found = quiet.diagnostics()
    assert ("idle", None) == (found.loop_state, found.loop_run_at)


@pytest.mark.item("J2")
def test_a_work_enqueued_by_another_process_starts_at_once_in_an_idle_pool(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    # Without backstop and polls: only the wake-up starts it, so it is at once.
    live(**NO_NETS)
    pool = fresh()

    works = [_run(pool)]
    wait_asleep(pool)
    works.append(_run(pool))
    wait_asleep(pool)
    works.append(_run(pool))

    assert ids(works) == journal.begins()


@pytest.mark.item("J6")
def test_300_enqueues_at_random_moments_each_wake_a_loop_that_keeps_going_idle(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live(**NO_NETS)
    pool = fresh(max_parallelism=50)
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown by pytest where the test fails

    def enqueue(number: int) -> list[Work]:
        chance, never = random.Random(seed + number), threading.Event()
        works = []
        for _ in range(100):
            never.wait(chance.uniform(0, 0.03))
            works.append(pool.enqueue_action(functions.echo))
        return works

    with ThreadPoolExecutor(3) as others:
        runs = [others.submit(closing, lambda n=n: enqueue(n)) for n in range(3)]
        works = [work for run in runs for work in run.result()]
    ends = [pool.wait(work, timeout=PATIENCE) for work in works]

    assert {"success"} == {end.completion_status for end in ends}
    assert sorted(ids(works)) == sorted(journal.begins())


@pytest.mark.item("J7")
def test_works_whose_enqueuer_can_notify_nobody_start_by_polling(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    point = "kick.before_send=raise:django.db.OperationalError"
    live(WORKPOOL_FAILPOINTS=point)
    _run(pool)
    wait_asleep(pool)

    with armed(point, journal):
        works = [_run(pool) for _ in range(3)]

    assert ["success"] * 3 == [pool.result(work).kind for work in works]


def _listeners() -> list[int]:
    """Return the sessions of this database that listen."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND query LIKE 'LISTEN%%' AND pid <> pg_backend_pid()"
        )
        return [pid for (pid,) in cursor.fetchall()]


def _terminate(pids: list[int]) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s) pid", [pids])


@pytest.mark.item("J7")
@pytest.mark.vendor("postgresql")  # the only one that listens
def test_works_start_though_the_session_that_listens_was_killed(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    runner = live()
    pool = fresh()
    _run(pool)
    wait_asleep(pool)
    listeners = _listeners()

    _terminate(listeners)
    with armed("kick.before_send=raise:django.db.OperationalError", journal):
        works = [_run(pool), _run(pool)]
    until(lambda: set(_listeners()) - set(listeners), "a new session that listens")

    assert 1 == len(listeners)
    assert ["success"] * 2 == [pool.result(work).kind for work in works]
    assert "success" == pool.result(_run(pool)).kind
    assert 0 == runner.stop(), runner.output
    assert "ERROR" not in runner.output


@pytest.mark.item("J13")
def test_no_function_runs_in_the_process_of_the_runner(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    runner = live("--processes", "2")
    workers = {worker.pid for worker in runner.workers()}

    works = [
        pool.enqueue_action(life_functions.pid),
        pool.enqueue_action(life_functions.async_pid),
        pool.enqueue_mutation(life_functions.mutation_pid),
        pool.enqueue_action(life_functions.pid),
    ]
    [pool.wait(work, timeout=PATIENCE) for work in works]
    pids = {pool.result(work).return_value for work in works}

    assert 2 == len(workers)
    assert pids <= workers
    assert runner.process.pid not in pids


@pytest.mark.item("J14")
def test_a_stop_lets_works_end_and_gives_back_what_has_not_begun(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    # The second lane of the worker never takes a work, and nothing is given back
    # before the stop: so one work has begun, and two are assigned.
    points = "lane.before_next=wait:lane*1@worker,giveback.before=wait:back@worker"
    pool = fresh(max_parallelism=3)
    runner = live("--threads", "3", WORKPOOL_FAILPOINTS=points)
    held = pool.enqueue_action(functions.hold)
    journal.wait_begun()
    assigned = pool.enqueue_action_batch(functions.echo, [None, None])
    wait_reached(journal, "back")
    before = [one and one.kind for one in pool.status_batch(assigned)]

    runner.terminate()
    journal.release("back")
    until(lambda: not pool.status(assigned[0]).started_at, "the give-back")
    journal.release()
    code = runner.wait()

    assert ["in_progress"] * 2 == before
    assert 0 == code, runner.output
    assert "success" == pool.result(held).kind
    assert [("pending", 0)] * 2 == [
        (one.kind, one.previous_attempts)
        for one in pool.status_batch(assigned)
        if one is not None
    ]
    assert not InProgressWork.objects.using("default").exists()
    assert ids([held]) == journal.begins()
    live()
    ends = [pool.wait(work, timeout=PATIENCE) for work in assigned]
    assert [("success", 0)] * 2 == [
        (end.completion_status, end.previous_attempts) for end in ends
    ]
    assert sorted(ids([held, *assigned])) == sorted(journal.begins())


@pytest.mark.item("J14")
@pytest.mark.parametrize("how", ["hold", "async_hold", "mutation_hold"])
def test_a_work_of_any_kind_may_end_after_the_stop_signal(
    how: str, live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    runner = live()
    enqueue = {"mutation_hold": pool.enqueue_mutation}.get(how, pool.enqueue_action)
    held = enqueue(getattr(functions, how))
    journal.wait_begun()

    runner.terminate()
    journal.release()
    code = runner.wait()

    assert 0 == code, runner.output
    assert "success" == pool.result(held).kind
    assert ids([held]) == journal.begins()


@pytest.mark.item("J16")
def test_drain_ends_with_0_when_everything_due_has_run(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, other, paused = fresh(max_parallelism=3), fresh(), fresh("paused")
    works = pool.enqueue_action_batch(functions.sleep, [{"seconds": 0.01}] * 40)
    works += [other.enqueue_mutation(functions.effect)]
    paused.pause()
    later = paused.enqueue_action(functions.echo)

    runner = live("--drain", ready=False)
    code = runner.wait()

    assert 0 == code, runner.output
    assert {"success"} == {pool.result(work).kind for work in works[:-1]}
    assert "success" == other.result(works[-1]).kind
    assert sorted(ids(works)) == sorted(journal.begins())
    # What nothing may start is not due.
    assert "pending" == paused.status(later).kind
    assert not InProgressWork.objects.using("default").exists()


@pytest.mark.item("J16")
def test_drain_ends_with_0_when_there_is_nothing(
    live: Callable[..., LiveRunner],
) -> None:
    runner = live("--drain", ready=False)

    assert 0 == runner.wait(), runner.output
