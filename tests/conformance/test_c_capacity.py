"""C. Capacity: real workers, and what never happens at the same instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_workpool.choices import WorkKind
from django_workpool.models import InProgressWork, MainLoop
from django_workpool.planner.admission import MAX_STARTS
from tests.app import engine_functions, functions
from tests.app.models import Counter
from tests.conformance.pools import fresh
from tests.conformance.stumbling import NO_NETS, wait_asleep
from tests.journal import ids, until
from tests.live import kill

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def in_progress(pool: Workpool) -> int:
    """Return how many works of the pool are in progress."""
    return InProgressWork.objects.using("default").for_pool(pool.name).count()


@pytest.mark.item("C4")
def test_works_run_once_each_and_never_more_than_the_limit(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=3)
    live("--processes", "2", "--threads", "8")

    works = [pool.enqueue_action(functions.sleep, {"seconds": 0.02}) for _ in range(20)]
    ends = [pool.wait(work, timeout=60) for work in works]

    assert ["success"] * 20 == [end.completion_status for end in ends]
    assert sorted(ids(works)) == sorted(journal.begins(pool.name))
    assert 3 == journal.peak(pool.name)


@pytest.mark.item("C7")
@pytest.mark.parametrize("kind", ["action", "mutation"])
def test_a_limit_of_one_makes_reading_adding_and_writing_safe(
    live: Callable[..., LiveRunner], journal: Journal, kind: str
) -> None:
    pool = fresh(max_parallelism=1)
    Counter.objects.using("default").create(name="counter")
    live("--processes", "2")

    works = (
        pool.enqueue_action_batch(
            engine_functions.read_add_write, [{"name": "counter"}] * 30
        )
        if kind == "action"
        else pool.enqueue_mutation_batch(functions.increment, [{}] * 30)
    )
    ends = [pool.wait(work, timeout=60) for work in works]

    assert ["success"] * 30 == [end.completion_status for end in ends]
    assert 30 == Counter.objects.using("default").get(name="counter").value
    assert 1 == journal.peak(pool.name)


@pytest.mark.item("C8")
def test_more_works_than_a_pass_may_start_are_all_in_progress_without_another_kick(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=10_000)
    count = MAX_STARTS + 100
    live("--coroutines", "2000")

    works = pool.enqueue_action_batch(
        engine_functions.wait_for_all, [{"name": "all"}] * count
    )
    until(lambda: in_progress(pool) == count, "all works to be in progress")
    journal.release("all")
    ends = [pool.wait(work, timeout=60) for work in works]

    assert {"success"} == {end.completion_status for end in ends}


@pytest.mark.item("C9")
def test_all_kinds_run_at_the_same_instant_under_one_limit(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=3)
    live()

    works = [
        pool.enqueue_action(functions.hold, {"name": "sync"}),
        pool.enqueue_action(functions.async_hold, {"name": "async"}),
        pool.enqueue_mutation(functions.mutation_hold, {"name": "mutation"}),
        pool.enqueue_action(functions.async_hold, {"name": "next"}),
    ]
    journal.wait_begun("sync", "async", "mutation")
    running_with_the_mutation = journal.has_begun("next")
    for name in ("sync", "async", "mutation", "next"):
        journal.release(name)
    ends = [pool.wait(work, timeout=60) for work in works]

    assert not running_with_the_mutation
    assert ["success"] * 4 == [end.completion_status for end in ends]
    assert 3 == journal.peak(pool.name)


@pytest.mark.item("C12")
def test_a_work_without_a_worker_starts_when_one_appears(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    live("--no-workers")
    work = pool.enqueue_action(functions.echo, {"value": 1})
    until(lambda: MainLoop.objects.using("default").exists(), "a pass")
    wait_asleep(pool)
    waiting = pool.status(work).kind

    live("--no-loop")
    end = pool.wait(work, timeout=30)

    assert WorkKind.PENDING == waiting
    assert "success" == end.completion_status
    assert ids([work]) == journal.begins(pool.name)


@pytest.mark.item("C13")
def test_no_slot_is_lost_with_the_processes_that_held_all_of_them(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=3)
    runner = live("--processes", "2")
    names = ["a", "b", "c", "d", "e", "f", "g"]
    works = [pool.enqueue_action(functions.hold, {"name": name}) for name in names]
    journal.wait_begun("a", "b", "c")

    deaths = {worker.pid: kill(worker) for worker in runner.workers()}
    lost = [pool.wait(work, timeout=30) for work in works[:3]]
    journal.wait_begun("d", "e", "f")
    held = in_progress(pool)
    for name in names:
        journal.release(name)
    ends = [pool.wait(work, timeout=30) for work in works[3:]]

    assert ["error"] * 3 == [end.completion_status for end in lost]
    assert 3 == held
    assert ["success"] * 4 == [end.completion_status for end in ends]
    assert 3 == journal.peak(pool.name, deaths)


@pytest.mark.item("C16")
def test_the_next_work_of_a_saturated_pool_starts_when_one_completes(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    # No backstop: nothing but the completion itself can start the next one.
    pool = fresh(max_parallelism=2)
    live("--processes", "2", **NO_NETS)
    names = ["a", "b", "c", "d"]
    works = [pool.enqueue_action(functions.hold, {"name": name}) for name in names]
    journal.wait_begun("a", "b")
    wait_asleep(pool)
    begun_before = [journal.has_begun(name) for name in ("c", "d")]

    journal.release("a")
    journal.wait_begun("c")
    wait_asleep(pool)
    last_begun_before = journal.has_begun("d")
    journal.release("b")
    journal.wait_begun("d")
    journal.release("c")
    journal.release("d")
    ends = [pool.wait(work, timeout=30) for work in works]

    assert [False, False] == begun_before
    assert not last_begun_before
    assert ["success"] * 4 == [end.completion_status for end in ends]
    assert 2 == journal.peak(pool.name)


@pytest.mark.item("C16")
def test_the_next_mutation_of_a_saturated_pool_starts_when_one_completes(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)
    live(**NO_NETS)

    works = pool.enqueue_mutation_batch(functions.increment, [{}] * 10)
    ends = [pool.wait(work, timeout=30) for work in works]

    assert ["success"] * 10 == [end.completion_status for end in ends]
    assert ids(works) == journal.begins(pool.name)
