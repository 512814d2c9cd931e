"""C. Starts: what one pass does."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_workpool.choices import WorkerState, WorkKind
from django_workpool.db import clock
from django_workpool.executors.inline import InlineExecutor
from django_workpool.models import (
    InProgressWork,
    MainLoop,
    PendingStart,
    Worker,
)
from django_workpool.planner.admission import MAX_STARTS
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.conformance.pools import fresh
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def kinds(pool: Workpool, works: Iterable[Work]) -> list[str]:
    """Return where each work is."""
    return [found.kind for found in pool.status_batch(works) if found is not None]


def lanes(pool: Workpool) -> dict[UUID, int]:
    """Return the lane of each work in progress."""
    rows = InProgressWork.objects.using("default").for_pool(pool.name)
    return dict(rows.values_list("work_id", "lane"))


@pytest.mark.item("C1")
def test_a_pass_moves_a_due_work_into_progress_as_its_first_attempt() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)

    run_pass(pool.name)

    row = InProgressWork.objects.using("default").get()
    assert not PendingStart.objects.using("default").exists()
    assert (work.pk, 1, pool.name) == (row.work_id, row.attempt, row.pool)
    assert inline_executor().worker.pk == row.worker_id
    status = pool.status(work)
    assert (WorkKind.IN_PROGRESS, 0) == (status.kind, status.previous_attempts)
    assert status.started_at is not None


@pytest.mark.item("C2")
def test_a_pass_starts_no_more_works_than_the_limit() -> None:
    pool = fresh(max_parallelism=3)
    works = pool.enqueue_action_batch(functions.echo, [{}] * 7)

    run_pass(pool.name)
    run_pass(pool.name)

    assert [WorkKind.IN_PROGRESS] * 3 + [WorkKind.PENDING] * 4 == kinds(pool, works)
    assert {1, 2, 3} == set(lanes(pool).values())


@pytest.mark.item("C3")
def test_a_completed_work_holds_no_slot_and_its_lane_is_given_on_in_the_same_pass() -> (
    None
):
    pool = fresh(max_parallelism=2)
    works = pool.enqueue_action_batch(functions.echo, [{}] * 4)
    run_pass(pool.name)
    executor = inline_executor()
    first, _ = executor.fetch()

    executor.finish(executor.execute(first))
    run_pass(pool.name)

    assert [
        WorkKind.COMPLETED,
        WorkKind.IN_PROGRESS,
        WorkKind.IN_PROGRESS,
        WorkKind.PENDING,
    ] == kinds(pool, works)
    assert {works[1].pk: 2, works[2].pk: 1} == lanes(pool)


@pytest.mark.item("C6")
def test_works_start_in_the_order_of_enqueue(journal: Journal) -> None:
    pool = fresh(max_parallelism=20)
    single = [pool.enqueue_action(functions.echo) for _ in range(10)]
    batch = pool.enqueue_action_batch(functions.echo, [{}] * 10)

    drain(pool.name)

    assert ids([*single, *batch]) == journal.begins(pool.name)


@pytest.mark.item("C8")
def test_a_pass_that_left_due_works_behind_leaves_its_loop_awake() -> None:
    pool = fresh(max_parallelism=10_000)
    pool.enqueue_action_batch(functions.echo, [{}] * (MAX_STARTS + 100))

    first = run_pass(pool.name)
    state = MainLoop.objects.using("default").get(pk=pool.name).state
    started = len(lanes(pool))
    run_pass(pool.name)

    assert first is not None
    assert first.is_running
    assert "running" == state
    assert MAX_STARTS == started
    assert MAX_STARTS + 100 == len(set(lanes(pool).values()))


@pytest.mark.item("C9")
def test_all_kinds_sync_and_async_start_together_under_one_limit() -> None:
    pool = fresh(max_parallelism=4)
    works = [
        pool.enqueue_action(functions.echo),
        pool.enqueue_action(functions.async_echo),
        pool.enqueue_mutation(functions.effect),
        pool.enqueue_action(functions.async_echo),
        pool.enqueue_mutation(functions.effect),
    ]

    run_pass(pool.name)

    assert [WorkKind.IN_PROGRESS] * 4 + [WorkKind.PENDING] == kinds(pool, works)
    assert [1, 2, 3, 4] == sorted(lanes(pool).values())


@pytest.mark.item("C10")
def test_one_pass_completes_cancels_and_starts() -> None:
    pool = fresh(max_parallelism=1)
    w1 = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    executor = inline_executor()
    (held,) = executor.fetch()
    w2 = pool.enqueue_action(functions.echo)
    w3 = pool.enqueue_action(functions.echo)
    pool.cancel(w2)
    executor.finish(executor.execute(held))

    run_pass(pool.name)

    assert "success" == pool.status(w1).completion_status
    assert "canceled" == pool.status(w2).completion_status
    assert WorkKind.IN_PROGRESS == pool.status(w3).kind


@pytest.mark.item("C11")
def test_a_start_that_fails_leaves_the_other_starts_of_its_pass_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool, elsewhere = fresh(), fresh("elsewhere")
    works = pool.enqueue_action_batch(functions.echo, [{}] * 3)
    put_in_the_way(works[1], elsewhere)

    run_pass(pool.name)
    started = set(lanes(pool))
    # It comes to its end: the loop does not try the poisoned row for ever.
    drain(pool.name)

    assert {works[0].pk, works[2].pk} == started
    assert "cannot be moved" in caplog.text
    assert ["success", None, "success"] == [
        pool.status(work).completion_status for work in works
    ]
    assert not PendingStart.objects.using("default").exists()


def put_in_the_way(work: Work, pool: Workpool) -> None:
    """Make the key of *work* in progress a taken one, by a row of another pool."""
    InProgressWork.objects.using("default").create(
        work_id=work.pk,
        pool=pool.name,
        fn_handle=work.fn_handle,
        hand_out=1,
        attempt=1,
        worker_id=uuid4(),
        lane=1,
        place=1,
        handed_out_at=clock.now("default"),
        start_id=1,
        rank=0,
        run_at=clock.now("default"),
    )


@pytest.mark.item("C12")
def test_without_a_worker_a_work_stays_pending() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)

    run_pass(pool.name, with_worker=False)

    assert WorkKind.PENDING == pool.status(work).kind
    assert {} == lanes(pool)
    assert ("executor_capacity",) == pool.explain(work).failed


@pytest.mark.item("C12")
@pytest.mark.parametrize("mode", ["threads", "coroutines"])
def test_a_worker_is_given_no_more_than_it_has_room_for(mode: str) -> None:
    pool, other = fresh(), fresh("other")
    room = {"threads": 2, "coroutines": 2, mode: 1}
    executor = InlineExecutor(
        "default", threads=room["threads"], coroutines=room["coroutines"]
    )
    fn = functions.echo if mode == "threads" else functions.async_echo
    works = pool.enqueue_action_batch(fn, [{}] * 3)
    rival = other.enqueue_action(fn)

    run_pass(pool.name, with_worker=False)
    run_pass(other.name, with_worker=False)
    executor.run()
    run_pass(pool.name, with_worker=False)

    assert [
        WorkKind.COMPLETED,
        WorkKind.IN_PROGRESS,
        WorkKind.PENDING,
    ] == kinds(pool, works)
    assert WorkKind.PENDING == other.status(rival).kind


@pytest.mark.item("C12")
@pytest.mark.parametrize(
    "state", [WorkerState.STARTING, WorkerState.DRAINING, WorkerState.DEAD]
)
def test_a_worker_that_is_not_ready_is_given_nothing(state: WorkerState) -> None:
    pool = fresh()
    executor = InlineExecutor("default")
    Worker.objects.using("default").filter(pk=executor.worker.pk).update(state=state)
    work = pool.enqueue_action(functions.echo)

    run_pass(pool.name, with_worker=False)

    assert WorkKind.PENDING == pool.status(work).kind


@pytest.mark.item("C12")
def test_a_worker_that_serves_other_pools_is_given_nothing() -> None:
    pool = fresh()
    InlineExecutor("default", pools=["another"])
    work = pool.enqueue_action(functions.echo)

    run_pass(pool.name, with_worker=False)

    assert WorkKind.PENDING == pool.status(work).kind
