"""C15, protocol R5: what a pass costs does not depend on what the tables hold."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.db import connections

from django_workpool.choices import WorkerState
from django_workpool.db import clock
from django_workpool.executors.inline import InlineExecutor
from django_workpool.models import CompletedWork, InProgressWork, Worker
from django_workpool.testing import run_pass
from tests.app import functions
from tests.conformance.pools import fresh
from tests.conformance.sessions import statements

if TYPE_CHECKING:
    from django_workpool import Workpool
    from django_workpool.engine.loop import Passed

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

# To complete and to start; protocol R5 allows 12.
COMPLETE_AND_START = {"sqlite": 12, "postgresql": 11}
# With a cancelation of either kind, recovery of any outcome and cleanup; R5 allows 24.
EVERYTHING = {"sqlite": 23, "postgresql": 20}


def pinned(numbers: dict[str, int]) -> int:
    """Return the number for the database of this run."""
    return numbers[connections["default"].vendor]


def counted(pool: Workpool) -> tuple[Passed, int]:
    """Run one pass; return it and the number of its statements."""
    with statements() as executed:
        passed = run_pass(pool.name, with_worker=False)
    assert passed is not None
    return passed, len(executed)


def completed(pool: Workpool, number: int) -> None:
    """Leave the records of so many ended works."""
    now = clock.now("default")
    CompletedWork.objects.using("default").bulk_create(
        [
            CompletedWork(
                work_id=uuid4(),
                pool=pool.name,
                completion_status="success",
                attempts=1,
                completed_at=now,
            )
            for _ in range(number)
        ],
        batch_size=1_000,
    )


@pytest.mark.item("C15")
@pytest.mark.parametrize(
    ("pending", "ended"),
    [(10, 0), (10_000, 0), (10, 10_000), (10_000, 10_000)],
    ids=["few", "many-pending", "many-completed", "many-of-both"],
)
def test_completing_and_starting_takes_the_same_statements_whatever_is_stored(
    pending: int, ended: int
) -> None:
    pool = fresh(max_parallelism=2)
    completed(pool, ended)
    pool.enqueue_action_batch(functions.echo, [{}] * pending)
    executor = InlineExecutor("default")
    counted(pool)
    executor.run()

    passed, count = counted(pool)

    assert 2 == len(passed.plan.completions)
    assert 2 == len(passed.plan.starts)
    assert pinned(COMPLETE_AND_START) == count
    assert count <= 12


@pytest.mark.item("C15")
@pytest.mark.parametrize("number", [1, 100])
def test_completing_and_starting_takes_the_same_statements_for_one_and_for_many(
    number: int,
) -> None:
    pool = fresh(max_parallelism=number)
    pool.enqueue_action_batch(functions.echo, [{}] * (2 * number))
    executor = InlineExecutor("default")
    counted(pool)
    executor.run()

    passed, count = counted(pool)

    assert number == len(passed.plan.completions)
    assert number == len(passed.plan.starts)
    assert pinned(COMPLETE_AND_START) == count


@pytest.mark.item("C15")
@pytest.mark.parametrize(("pending", "ended"), [(10, 0), (10_000, 10_000)])
def test_a_pass_that_does_everything_stays_within_its_bound(
    pending: int, ended: int
) -> None:
    pool = fresh(max_parallelism=10, status_ttl=timedelta(hours=1))
    InlineExecutor("default", threads=10)
    executor = InlineExecutor("default", threads=100)
    works = pool.enqueue_action_batch(functions.echo, [{}] * 4)
    restarted = pool.enqueue_mutation(functions.effect)
    counted(pool)
    done, flagged, *_ = works
    assignments = {work.work_id: work for work in executor.fetch()}
    executor.finish(executor.execute(assignments[done.pk]))
    # Recovery: one lost, one that had not begun, and a mutation that starts again.
    dead = dying_worker()
    moved = InProgressWork.objects.using("default").filter(
        work_id__in=[works[2].pk, works[3].pk, restarted.pk]
    )
    moved.update(worker_id=dead.pk)
    begun = moved.exclude(work_id=works[3].pk).values_list("work_id", "hand_out")
    dead.begun = json.dumps([[key.hex, hand_out] for key, hand_out in begun])
    dead.save(using="default")
    pool.enqueue_action_batch(functions.echo, [{}] * pending)
    waiting = pool.enqueue_action(functions.echo)
    pool.cancel(flagged)
    pool.cancel(waiting)
    completed(pool, ended)

    passed, count = counted(pool)
    # A pass that recovers leaves the cleaning to the next one.
    make_old(pool)
    cleaning, cleaning_count = counted(pool)

    plan = passed.plan
    assert (1, 1, 1) == (len(plan.completions), len(plan.canceled), len(plan.flagged))
    assert (1, 2, 1) == (len(plan.lost), len(plan.given_back), len(plan.restarted))
    assert plan.starts
    assert pinned(EVERYTHING) == count
    assert cleaning.plan.expired_before is not None
    assert max(count, cleaning_count) <= 24


def dying_worker() -> Worker:
    """Return the row of a worker that was proven dead, not saved yet."""
    return Worker(
        id=uuid4(),
        runner_id=uuid4(),
        pid=1,
        pools="[]",
        threads=1,
        coroutines=1,
        handles="{}",
        handles_digest="",
        state=WorkerState.DEAD,
        last_exit="killed",
        started_at=clock.now("default"),
        ended_at=clock.now("default"),
    )


def make_old(pool: Workpool) -> None:
    """Let the records of ended works be older than the pool keeps them."""
    rows = CompletedWork.objects.using("default").for_pool(pool.name)
    rows.update(completed_at=clock.now("default") - timedelta(days=1))
