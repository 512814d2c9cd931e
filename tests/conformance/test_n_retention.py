"""N1 to N6: how long ended works stay, and what never goes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.apps import apps

from django_workpool.engine.cleanup import MAX_EXPIRED
from django_workpool.exceptions import WorkNotFoundError
from django_workpool.models import CompletedWork, InProgressWork, Work
from django_workpool.testing import clock, drain, inline_executor, run_pass
from tests.app import functions
from tests.conformance.pools import fresh
from tests.engine import bulk
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

# Some milliseconds of a pass, on any database.
SMALL_CHUNK = 500
QUEUE = ("PendingStart", "PendingCompletion", "PendingCancelation", "InProgressWork")


def _tables_with(work: Work) -> list[str]:
    """Return the names of the models that have a row of *work*."""
    models = apps.get_app_config("workpool").get_models()
    keys = {
        model: "work_id" if hasattr(model, "work_id") else "pk"
        for model in models
        if model is Work or hasattr(model, "work_id")
    }
    return sorted(
        model.__name__
        for model, key in keys.items()
        if model._default_manager.using("default").filter(**{key: work.pk}).exists()
    )


def _run_all_endings(pool: Workpool) -> list[Work]:
    """Return a work of each ending: success, error, mutation, canceled, flagged."""
    works = [
        pool.enqueue_action(functions.add, {"a": 1}),
        pool.enqueue_action(functions.fail),
        pool.enqueue_mutation(functions.effect),
        pool.enqueue_action(functions.add, {"a": 2}),
        pool.enqueue_action(functions.add, {"a": 3}),
    ]
    pool.cancel(works[3])
    run_pass(pool.name)
    pool.cancel(works[4])
    drain(pool.name)
    return works


def _left_after_a_pass(pool: Workpool) -> int:
    run_pass(pool.name)
    return Work.objects.using("default").count()


@pytest.mark.item("N1")
def test_an_expired_work_leaves_no_row_and_is_not_found() -> None:
    with clock() as now:
        pool = fresh(status_ttl=60)
        works = _run_all_endings(pool)
        before = [_tables_with(work) for work in works]

        now.move(60)
        drain(pool.name)

    assert [["CompletedWork", "Work"]] * 5 == before
    assert [[]] * 5 == [_tables_with(work) for work in works]
    assert [None] * 5 == pool.status_batch(works)
    with pytest.raises(WorkNotFoundError, match=str(works[0].pk)):
        pool.status(works[0])
    with pytest.raises(WorkNotFoundError, match=str(works[0].pk)):
        pool.result(works[0])


@pytest.mark.item("N1")
def test_a_work_stays_until_its_time_is_over() -> None:
    with clock() as now:
        pool = fresh(status_ttl=60)
        works = _run_all_endings(pool)

        now.move(timedelta(seconds=60) - timedelta(microseconds=1))
        drain(pool.name)

    assert {"completed"} == {pool.status(work).kind for work in works}


@pytest.mark.item("N1")
def test_cleanup_leaves_the_works_of_other_pools() -> None:
    with clock() as now:
        short, long = fresh(status_ttl=60), fresh(status_ttl=3600)
        gone = short.enqueue_action(functions.add, {"a": 1})
        kept = long.enqueue_action(functions.add, {"a": 1})
        drain()

        now.move(61)
        drain()

    assert [] == _tables_with(gone)
    assert "success" == long.status(kept).completion_status


@pytest.mark.item("N2")
def test_without_a_ttl_an_ended_work_stays_readable_for_ever() -> None:
    with clock() as now:
        pool = fresh(status_ttl=None)
        work = pool.enqueue_action(functions.add, {"a": 1})
        drain(pool.name)

        now.move(timedelta(days=36_500))
        drain(pool.name)

    assert "success" == pool.status(work).completion_status
    assert 2 == pool.result(work).return_value


@pytest.mark.item("N2")
def test_with_a_ttl_of_zero_nothing_of_an_ended_work_remains() -> None:
    pool = fresh(status_ttl=timedelta(0))

    works = _run_all_endings(pool)

    assert [[]] * 5 == [_tables_with(work) for work in works]


@pytest.mark.item("N2", "N3")
def test_a_live_runner_cleans_up_by_the_value_in_force_soon(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh(status_ttl=timedelta(days=1))
    live()
    work = pool.enqueue_action(functions.add, {"a": 1})
    ended = pool.wait(work, timeout=30)

    pool.update(status_ttl=0)
    until(lambda: [] == _tables_with(work), "the work that ended before to be gone")
    after = pool.enqueue_action(functions.add, {"a": 2})
    until(lambda: [] == _tables_with(after), "the work that ends now to be gone")

    assert "success" == ended.completion_status


@pytest.mark.item("N2")
def test_a_live_runner_cleans_up_an_idle_pool_when_the_time_is_over(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh(status_ttl=timedelta(seconds=1))
    live()

    work = pool.enqueue_action(functions.add, {"a": 1})
    until(lambda: [] == _tables_with(work), "the work to be gone")

    assert [None] == pool.status_batch([work])


@pytest.mark.item("N3")
def test_a_shorter_ttl_also_holds_for_works_that_ended_before() -> None:
    with clock() as now:
        pool = fresh(status_ttl=3600)
        work = pool.enqueue_action(functions.add, {"a": 1})
        drain(pool.name)

        now.move(120)
        pool.update(status_ttl=60)
        drain(pool.name)

    assert [] == _tables_with(work)


@pytest.mark.item("N3")
@pytest.mark.parametrize("longer", [timedelta(days=1), None], ids=["a day", "for ever"])
def test_a_longer_ttl_also_holds_for_works_that_ended_before(
    longer: timedelta | None,
) -> None:
    with clock() as now:
        pool = fresh(status_ttl=60)
        work = pool.enqueue_action(functions.add, {"a": 1})
        drain(pool.name)

        pool.update(status_ttl=longer)
        now.move(120)
        drain(pool.name)

    assert "success" == pool.status(work).completion_status


@pytest.mark.item("N4")
def test_a_new_work_starts_in_the_first_pass_over_50_000_expired_ones() -> None:
    pool = fresh(status_ttl=60)
    executor = inline_executor()
    bulk.fill_completed("default", pool.name, 50_000)

    with clock(bulk.NOW + timedelta(days=1)):
        work = pool.enqueue_action(functions.add, {"a": 1})
        run_pass(pool.name)
        assigned = [assignment.work_id for assignment in executor.fetch()]

    gone = 50_000 - CompletedWork.objects.using("default").count()
    assert [work.pk] == assigned
    assert 0 < gone <= SMALL_CHUNK


@pytest.mark.item("N4")
def test_all_expired_works_go_in_the_end_chunk_by_chunk() -> None:
    pool = fresh(status_ttl=60)
    bulk.fill_completed("default", pool.name, 3 * MAX_EXPIRED + 1)

    with clock(bulk.NOW + timedelta(days=1)):
        counts = [_left_after_a_pass(pool) for _ in range(5)]

    assert [2 * MAX_EXPIRED + 1, MAX_EXPIRED + 1, 1, 0, 0] == counts


@pytest.mark.item("N5")
def test_works_that_have_not_ended_stay_at_any_age() -> None:
    with clock() as now:
        pool = fresh(status_ttl=60, max_parallelism=1)
        ended = pool.enqueue_action(functions.add, {"a": 0})
        drain(pool.name)
        running, waiting = pool.enqueue_action_batch(
            functions.add, [{"a": 1}, {"a": 2}]
        )
        run_pass(pool.name)

        now.move(timedelta(days=3650))
        run_pass(pool.name)
        run_pass(pool.name)

    assert [] == _tables_with(ended)
    assert ["InProgressWork", "Work"] == _tables_with(running)
    assert ["PendingStart", "Work"] == _tables_with(waiting)


@pytest.mark.item("N5")
def test_an_old_work_of_a_paused_pool_runs_after_years() -> None:
    with clock() as now:
        pool = fresh(status_ttl=60)
        pool.pause()
        work = pool.enqueue_action(functions.add, {"a": 1})

        now.move(timedelta(days=3650))
        drain(pool.name)
        kept = _tables_with(work)
        pool.resume()
        drain(pool.name)

    assert ["PendingStart", "Work"] == kept
    assert "success" == pool.status(work).completion_status


@pytest.mark.item("N6")
def test_when_all_works_have_ended_the_queue_tables_are_empty() -> None:
    pool, other = fresh(), fresh(max_parallelism=1)

    ended = _run_all_endings(pool) + _run_all_endings(other)
    executor = inline_executor()
    twice = pool.enqueue_action(functions.add, {"a": 1})
    run_pass(pool.name)
    (assignment,) = executor.fetch()
    ending = executor.execute(assignment)
    executor.finish(ending)
    executor.finish(ending)
    drain()

    models = [apps.get_model("workpool", name) for name in QUEUE]
    counts = [model._default_manager.using("default").count() for model in models]
    assert [0, 0, 0, 0] == counts
    assert len(ended) + 1 == CompletedWork.objects.using("default").count()
    assert "success" == pool.status(twice).completion_status


@pytest.mark.item("N6")
def test_a_live_runner_leaves_the_queue_tables_empty(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh()
    runner = live("--processes", "2")

    works = pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(50)])
    works += pool.enqueue_mutation_batch(functions.effect, [{} for _ in range(10)])
    pool.cancel(works[-1])
    ends = [pool.wait(work, timeout=30).kind for work in works]
    code = runner.stop()

    models = [apps.get_model("workpool", name) for name in QUEUE]
    counts = [model._default_manager.using("default").count() for model in models]
    assert {"completed"} == set(ends)
    assert 0 == code
    assert [0, 0, 0, 0] == counts
    assert not InProgressWork.objects.using("default").exists()
