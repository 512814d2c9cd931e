"""N12: explain and the next pass agree, in every state of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_workpool.engine.load import HEAD_MARGIN
from django_workpool.executors.inline import InlineExecutor
from django_workpool.models import PendingStart, Work
from django_workpool.planner.admission import MAX_STARTS
from django_workpool.testing import inline_executor, run_pass
from tests.app import functions
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def _enqueue(pool: Workpool, count: int) -> list[Work]:
    return pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(count)])


def _plain(_pool: Workpool, _works: list[Work]) -> None:
    """Leave everything as it is."""


def _paused(pool: Workpool, _works: list[Work]) -> None:
    pool.pause("all of it")


def _pause_that_is_over(pool: Workpool, _works: list[Work]) -> None:
    pool.pause("yesterday", until=Work.objects.using("default").first().enqueued_at)  # type: ignore[union-attr]


def _with_canceled_ones(pool: Workpool, works: list[Work]) -> None:
    pool.cancel(works[0])
    pool.cancel(works[2])


def _with_works_in_progress(pool: Workpool, _works: list[Work]) -> None:
    run_pass(pool.name)


def _with_a_completion_to_consume(pool: Workpool, _works: list[Work]) -> None:
    run_pass(pool.name)
    executor = inline_executor()
    executor.finish(executor.execute(executor.fetch()[0]))


def _with_a_canceled_one_in_progress(pool: Workpool, works: list[Work]) -> None:
    run_pass(pool.name)
    pool.cancel(works[0])


def _with_a_lowered_limit(pool: Workpool, _works: list[Work]) -> None:
    run_pass(pool.name)
    pool.update(max_parallelism=1)


def _with_a_raised_limit(pool: Workpool, _works: list[Work]) -> None:
    run_pass(pool.name)
    pool.update(max_parallelism=3)


def _with_no_slot(pool: Workpool, _works: list[Work]) -> None:
    pool.update(max_parallelism=0)


def _with_an_unknown_function(_pool: Workpool, works: list[Work]) -> None:
    rows = PendingStart.objects.using("default").filter(work_id=works[0].pk)
    rows.update(fn_handle="app.of.tomorrow")


def _with_little_room(pool: Workpool, _works: list[Work]) -> None:
    inline_executor().close()
    InlineExecutor("default", threads=1, pools=[pool.name])
    pool.update(max_parallelism=5)


def _with_a_dead_worker(pool: Workpool, _works: list[Work]) -> None:
    run_pass(pool.name)
    inline_executor().close()
    InlineExecutor("default", pools=[pool.name])


@pytest.mark.item("N12")
@pytest.mark.parametrize(
    ("arrange", "starts"),
    [
        (_plain, 2),
        (_paused, 0),
        (_pause_that_is_over, 2),
        (_with_canceled_ones, 2),
        (_with_works_in_progress, 0),
        (_with_a_completion_to_consume, 1),
        (_with_a_canceled_one_in_progress, 0),
        (_with_a_lowered_limit, 0),
        (_with_a_raised_limit, 1),
        (_with_no_slot, 0),
        (_with_an_unknown_function, 2),
        (_with_little_room, 1),
        (_with_a_dead_worker, 0),
    ],
)
def test_the_next_pass_starts_exactly_the_works_that_pass_all_predicates(
    arrange: Callable[[Workpool, list[Work]], None], starts: int
) -> None:
    inline_executor()
    pool = fresh(max_parallelism=2)
    works = _enqueue(pool, 5)
    arrange(pool, works)

    explained = {work.pk: pool.explain(work) for work in works}
    passed = run_pass(pool.name, with_worker=False)

    assert passed is not None
    pending = {key: e for key, e in explained.items() if e.kind == "pending"}
    admitted = [key for key, e in pending.items() if not e.failed]
    assert admitted == [start.work_id for start in passed.plan.starts]
    assert starts == len(admitted)


@pytest.mark.item("N12")
def test_a_work_beyond_the_bound_of_one_pass_waits_for_the_next() -> None:
    inline_executor()
    pool = fresh(max_parallelism=10_000)
    works = _enqueue(pool, MAX_STARTS + 2)

    last, next_one = (pool.explain(works[n]).failed for n in (-3, -2))
    passed = run_pass(pool.name)

    assert passed is not None
    assert () == last
    assert ("slots",) == next_one
    assert [work.pk for work in works[:-2]] == [s.work_id for s in passed.plan.starts]


@pytest.mark.item("N12")
def test_a_work_beyond_what_a_pass_reads_waits_though_there_is_room() -> None:
    pool = fresh(max_parallelism=1)
    InlineExecutor("default", threads=0, coroutines=1, pools=[pool.name])
    _enqueue(pool, HEAD_MARGIN + 1)
    coroutine = pool.enqueue_action(functions.async_echo)

    failed = pool.explain(coroutine).failed
    passed = run_pass(pool.name, with_worker=False)

    assert passed is not None
    assert ("slots",) == failed
    assert () == passed.plan.starts


@pytest.mark.item("N12")
def test_explaining_changes_nothing() -> None:
    inline_executor()
    pool = fresh(max_parallelism=1)
    works = _enqueue(pool, 2)
    before = pool.debug_counts()

    first = [pool.explain(work) for work in works]
    second = [pool.explain(work) for work in works]

    assert [e.failed for e in first] == [e.failed for e in second]
    assert before == pool.debug_counts()
