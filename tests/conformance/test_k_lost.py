"""Conformance group K: works of processes that die."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db.models import F

from django_workpool.models import InProgressWork, Worker
from tests.app import functions, life_functions
from tests.conformance.pools import fresh
from tests.conformance.stumbling import NO_NETS, is_reached, wait_reached
from tests.journal import ids, until
from tests.live import kill

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    import psutil

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

PATIENCE = 30


def _ends(pool: Workpool, works: list[Work]) -> list[str | None]:
    return [pool.wait(work, timeout=PATIENCE).completion_status for work in works]


def _holders(pool: Workpool) -> dict[UUID, int]:
    """Return which process holds which work."""
    pids = dict(Worker.objects.using("default").values_list("pk", "pid"))
    return {one.work_id: pids[one.worker_id] for one in pool.running()}


def _process(runner: LiveRunner, pid: int) -> psutil.Process:
    return next(worker for worker in runner.workers() if worker.pid == pid)


@pytest.mark.item("K1")
def test_an_action_whose_worker_is_killed_ends_as_lost_and_never_runs_again(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    # Without the backstop: the runner sees the death itself, so it is within a second.
    pool = fresh()
    runner = live(**NO_NETS)
    lost = pool.enqueue_action(functions.hold)
    journal.wait_begun()
    (worker,) = runner.workers()

    kill(worker)
    end = pool.wait(lost, timeout=PATIENCE)
    after = pool.enqueue_action(functions.echo)
    pool.wait(after, timeout=PATIENCE)

    assert ("error", 0) == (end.completion_status, end.previous_attempts)
    found = pool.result(lost)
    assert ("WorkerLostError", None) == (found.error_type, found.return_value)
    assert "SIGKILL" in found.error
    # Not run again, though its pool and a new worker went on.
    assert ids([lost, after]) == journal.begins()


@pytest.mark.item("K3")
def test_a_function_that_runs_for_hours_is_not_recovered_while_its_worker_lives(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    live("--processes", "2")
    held = pool.enqueue_action(functions.hold)
    journal.wait_begun()
    hours = timedelta(hours=5)
    rows = InProgressWork.objects.using("default").filter(pk=held.pk)
    workers = Worker.objects.using("default").all()

    # As if it had begun, and its worker had last written anything, hours ago.
    rows.update(handed_out_at=F("handed_out_at") - hours)
    workers.update(started_at=F("started_at") - hours)
    others = [pool.enqueue_action(functions.echo) for _ in range(10)]
    ran = _ends(pool, others)
    while_held = pool.status(held)
    journal.release()
    end = pool.wait(held, timeout=PATIENCE)

    assert ["success"] * 10 == ran
    assert "in_progress" == while_held.kind
    assert ("success", 0) == (end.completion_status, end.previous_attempts)
    assert 1 == journal.begins().count(str(held.pk))


@pytest.mark.item("K4")
def test_the_death_of_one_worker_does_not_touch_the_works_of_another(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=4)
    runner = live("--processes", "2")
    names = ["one", "two", "three", "four"]
    works = pool.enqueue_action_batch(functions.hold, [{"name": n} for n in names])
    journal.wait_begun(*names)
    holders = _holders(pool)
    victim = holders[works[0].pk]
    lost = [work for work in works if holders[work.pk] == victim]
    kept = [work for work in works if holders[work.pk] != victim]

    kill(_process(runner, victim))
    lost_ends = _ends(pool, lost)
    between = [one and one.kind for one in pool.status_batch(kept)]
    journal.release(*names)
    kept_ends = _ends(pool, kept)

    assert (2, 2) == (len(lost), len(kept))
    assert ["error"] * 2 == lost_ends
    assert {"WorkerLostError"} == {pool.result(work).error_type for work in lost}
    assert ["in_progress"] * 2 == between
    assert ["success"] * 2 == kept_ends
    assert sorted(ids(works)) == sorted(journal.begins())


@pytest.mark.item("K5")
@pytest.mark.parametrize(
    ("fn", "args", "how"),
    [
        (life_functions.leave, {"code": 0}, "exit code 0"),
        (life_functions.leave, {"code": 7}, "exit code 7"),
        (life_functions.crash, {}, "SIGSEGV"),
    ],
    ids=["exit 0", "exit 7", "segmentation fault"],
)
def test_a_function_that_ends_its_process_costs_that_worker_only_its_own_works(
    fn: Callable[..., object],
    args: dict[str, object],
    how: str,
    live: Callable[..., LiveRunner],
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=4)
    runner = live("--processes", "2")
    before = {worker.pid for worker in runner.workers()}
    names = ["one", "two"]
    works = pool.enqueue_action_batch(functions.hold, [{"name": n} for n in names])
    journal.wait_begun(*names)
    holders = _holders(pool)

    deadly = pool.enqueue_action(fn, args)
    death = pool.wait(deadly, timeout=PATIENCE)
    until(lambda: len(runner.workers()) == 2, "a new worker")
    (dead,) = {begin["pid"] for begin in journal.lines("begin")[2:]}
    journal.release(*names)
    ends = dict(zip(works, _ends(pool, works), strict=True))
    after = _ends(pool, [pool.enqueue_action(functions.echo) for _ in range(5)])

    assert "error" == death.completion_status
    assert "WorkerLostError" == pool.result(deadly).error_type
    assert how in pool.result(deadly).error
    assert dead in before
    assert {work: holders[work.pk] == dead for work in works} == {
        work: end == "error" for work, end in ends.items()
    }
    assert 1 == len(before - {worker.pid for worker in runner.workers()})
    assert ["success"] * 5 == after
    assert 8 == len(set(journal.begins())) == len(journal.begins())


@pytest.mark.item("K6")
def test_of_a_killed_worker_only_what_had_begun_is_lost(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    # The second lane never takes a work, and nothing is given back: one work has
    # begun, and two are assigned.
    points = "lane.before_next=wait:lane*1@worker,giveback.before=wait:back@worker"
    pool = fresh(max_parallelism=3)
    runner = live("--threads", "3", WORKPOOL_FAILPOINTS=points)
    begun = pool.enqueue_action(functions.hold)
    journal.wait_begun()
    assigned = pool.enqueue_action_batch(functions.echo, [None, None])
    wait_reached(journal, "back")
    before = [one and one.kind for one in pool.status_batch([begun, *assigned])]
    pool.pause("so that the returned ones can be seen")
    (worker,) = runner.workers()

    kill(worker)
    end = pool.wait(begun, timeout=PATIENCE)
    until(lambda: not pool.running(), "all works to be recovered")
    returned = pool.status_batch(assigned)
    journal.release("lane", "back")
    pool.resume()
    ends = [pool.wait(work, timeout=PATIENCE) for work in assigned]

    assert ["in_progress"] * 3 == before
    assert is_reached(journal, "lane")
    assert "error" == end.completion_status
    assert "WorkerLostError" == pool.result(begun).error_type
    assert [("pending", 0)] * 2 == [
        (one.kind, one.previous_attempts) for one in returned if one is not None
    ]
    assert [("success", 0)] * 2 == [
        (one.completion_status, one.previous_attempts) for one in ends
    ]
    # Each once; two lanes may begin in any order.
    assert sorted(ids([begun, *assigned])) == sorted(journal.begins())
