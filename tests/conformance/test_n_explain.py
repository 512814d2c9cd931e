"""N10, N11, N13: why a work does not run, in the words and numbers of the pass."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync

from django_workpool.exceptions import WorkNotFoundError
from django_workpool.executors.inline import InlineExecutor
from django_workpool.models import PendingStart, Work
from django_workpool.planner.admission import PREDICATES
from django_workpool.testing import clock, drain, inline_executor, run_pass
from tests.app import functions
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def _enqueue(pool: Workpool, count: int) -> list[Work]:
    return pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(count)])


def _details(pool: Workpool, work: Work, name: str) -> dict[str, Any]:
    checks = {check.name: check for check in pool.explain(work).predicates}
    return dict(checks[name].details)


@pytest.mark.item("N10")
def test_every_predicate_is_answered_in_the_order_of_the_pass() -> None:
    inline_executor()
    pool = fresh()
    (work,) = _enqueue(pool, 1)

    explanation = pool.explain(work)

    assert work.pk == explanation.work_id
    assert "pending" == explanation.kind
    names = ["canceled", "paused", "not_due", "known_function", "slots"]
    names.append("executor_capacity")
    assert names == [check.name for check in explanation.predicates]
    assert names == [predicate.name for predicate in PREDICATES]
    assert {True} == {check.passed for check in explanation.predicates}
    assert () == explanation.failed


@pytest.mark.item("N10")
def test_a_pause_holds_a_work_back_until_its_end() -> None:
    inline_executor()
    with clock() as now:
        pool = fresh()
        (work,) = _enqueue(pool, 1)
        end = now.time + timedelta(hours=1)
        pool.pause("lunch", until=end)

        during = pool.explain(work).failed
        details = _details(pool, work, "paused")
        now.move(3600)
        after = pool.explain(work).failed

    assert ("paused",) == during
    assert {"paused_until": end} == details
    assert () == after


@pytest.mark.item("N10")
def test_slots_hold_a_work_back_with_their_numbers() -> None:
    pool = fresh(max_parallelism=2)
    works = _enqueue(pool, 3)
    run_pass(pool.name)

    explanation = pool.explain(works[2])

    assert ("slots",) == explanation.failed
    assert {
        "max_parallelism": 2,
        "occupied": 2,
        "started_before": 0,
    } == _details(pool, works[2], "slots")


@pytest.mark.item("N10")
def test_works_before_it_take_the_slots_that_a_work_needs() -> None:
    inline_executor()
    pool = fresh(max_parallelism=2)
    works = _enqueue(pool, 3)

    failed = [pool.explain(work).failed for work in works]

    assert [(), (), ("slots",)] == failed
    assert {
        "max_parallelism": 2,
        "occupied": 2,
        "started_before": 2,
    } == _details(pool, works[2], "slots")


@pytest.mark.item("N10")
def test_a_limit_of_zero_holds_a_work_back() -> None:
    inline_executor()
    pool = fresh(max_parallelism=0)
    (work,) = _enqueue(pool, 1)

    assert ("slots",) == pool.explain(work).failed
    assert 0 == _details(pool, work, "slots")["max_parallelism"]


@pytest.mark.item("N10")
def test_workers_without_room_hold_a_work_back_with_their_numbers() -> None:
    pool = fresh()
    executor = InlineExecutor("default", threads=1, pools=[pool.name])
    works = _enqueue(pool, 2)
    run_pass(pool.name, with_worker=False)

    explanation = pool.explain(works[1])

    assert [works[0].pk] == [a.work_id for a in executor.fetch()]
    assert ("executor_capacity",) == explanation.failed
    assert {"workers": 1, "free": 0} == _details(pool, works[1], "executor_capacity")


@pytest.mark.item("N10")
def test_threads_without_room_do_not_hold_a_coroutine_back() -> None:
    pool = fresh()
    InlineExecutor("default", threads=1, coroutines=1, pools=[pool.name])
    works = _enqueue(pool, 2)
    coroutine = pool.enqueue_action(functions.async_echo)

    failed = [pool.explain(work).failed for work in (*works, coroutine)]

    assert [(), ("executor_capacity",), ()] == failed


@pytest.mark.item("N10")
@pytest.mark.parametrize("pools", [None, ["another"]], ids=["none", "of another pool"])
def test_without_a_worker_that_serves_the_pool_nothing_starts(
    pools: list[str] | None,
) -> None:
    pool = fresh()
    workers = [] if pools is None else [InlineExecutor("default", pools=pools)]
    (work,) = _enqueue(pool, 1)

    assert ("executor_capacity",) == pool.explain(work).failed
    assert {"workers": 0, "free": 0} == _details(pool, work, "executor_capacity")
    assert len(workers) == len(pools or [])


@pytest.mark.item("N10")
def test_all_that_holds_a_work_back_is_named_at_once() -> None:
    pool = fresh(max_parallelism=1)
    InlineExecutor("default", threads=1, pools=[pool.name])
    works = _enqueue(pool, 2)
    run_pass(pool.name, with_worker=False)
    pool.pause("and more")
    pool.cancel(works[1])

    failed = pool.explain(works[1]).failed

    assert ("canceled", "paused", "slots", "executor_capacity") == failed


@pytest.mark.item("N10")
def test_a_function_that_no_worker_knows_is_named() -> None:
    inline_executor()
    pool = fresh()
    (work,) = _enqueue(pool, 1)
    rows = PendingStart.objects.using("default").filter(work_id=work.pk)
    rows.update(fn_handle="app.of.tomorrow")

    assert ("known_function",) == pool.explain(work).failed
    assert {"function": "app.of.tomorrow"} == _details(pool, work, "known_function")


@pytest.mark.item("N11")
def test_the_position_is_the_order_of_the_starts(journal: Journal) -> None:
    pool = fresh(max_parallelism=1)
    works = [pool.enqueue_action(functions.add, {"a": n}) for n in range(3)]
    works += _enqueue(pool, 3)
    positions = {str(work.pk): pool.explain(work).position for work in reversed(works)}

    drain(pool.name)

    assert [1, 2, 3, 4, 5, 6] == [positions[str(work.pk)] for work in works]
    assert [1, 2, 3, 4, 5, 6] == [positions[key] for key in journal.begins(pool.name)]


@pytest.mark.item("N11")
def test_works_that_have_started_and_other_pools_have_no_position() -> None:
    pool, other = fresh(max_parallelism=1), fresh()
    works = _enqueue(pool, 3)
    _enqueue(other, 2)
    run_pass(pool.name)

    positions = [pool.explain(work).position for work in works]

    assert [None, 1, 2] == positions


@pytest.mark.item("N13")
def test_of_a_work_in_progress_the_worker_is_named() -> None:
    pool = fresh()
    (work,) = _enqueue(pool, 1)
    run_pass(pool.name)

    explanation = pool.explain(work)

    assert "in_progress" == explanation.kind
    assert inline_executor().worker.pk == explanation.worker_id
    assert ((), ()) == (explanation.predicates, explanation.failed)
    assert (None, None) == (explanation.position, explanation.completion_status)


@pytest.mark.item("N13")
@pytest.mark.parametrize(
    ("enqueue", "status"),
    [
        (lambda pool: pool.enqueue_action(functions.add, {"a": 1}), "success"),
        (lambda pool: pool.enqueue_action(functions.fail), "error"),
    ],
    ids=["success", "error"],
)
def test_of_a_completed_work_the_outcome_is_named(
    enqueue: Callable[[Workpool], Work], status: str
) -> None:
    pool = fresh()
    work = enqueue(pool)
    drain(pool.name)

    explanation = async_to_sync(pool.aexplain)(work)

    assert "completed" == explanation.kind
    assert status == explanation.completion_status
    assert (None, None) == (explanation.position, explanation.worker_id)
    assert () == explanation.predicates


@pytest.mark.item("N13")
def test_an_unknown_work_is_not_explained() -> None:
    pool, other = fresh(), fresh()
    (work,) = _enqueue(other, 1)

    with pytest.raises(WorkNotFoundError):
        pool.explain(work)
