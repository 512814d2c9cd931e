"""D. Completions: one terminal record, fenced, and seen as a whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps

from django_workpool.choices import WorkKind
from django_workpool.db import clock
from django_workpool.engine import complete
from django_workpool.models import (
    CompletedWork,
    InProgressWork,
    MainLoop,
    PendingCompletion,
    PendingStart,
    Work,
)
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.app.models import Effect
from tests.conformance.pools import fresh
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from django_workpool import Workpool
    from django_workpool.engine.complete import Assignment
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def tables_with(work_id: UUID) -> list[str]:
    """Return the queue tables that have a row of a work."""
    return sorted(
        model.__name__
        for model in apps.get_app_config("workpool").get_models()
        for key in [field.name for field in model._meta.fields]
        if key == "work_id" or (model is Work and key == "id")
        if model._default_manager.using("default").filter(**{key: work_id}).exists()
    )


def executed(pool: Workpool) -> Assignment:
    """Start and run the pool's work inline, up to its written completion."""
    run_pass(pool.name)
    executor = inline_executor()
    (assignment,) = executor.fetch()
    executor.finish(executor.execute(assignment))
    return assignment


@pytest.mark.item("D1")
def test_a_success_leaves_one_terminal_record_and_nothing_else() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.add, {"a": 2, "b": 3})

    drain(pool.name)

    row = CompletedWork.objects.using("default").get()
    assert (work.pk, pool.name, "success", 1) == (
        row.work_id,
        row.pool,
        row.completion_status,
        row.attempts,
    )
    assert 5 == json.loads(str(row.return_value))
    assert inline_executor().worker.pk == row.worker_id
    assert row.started_at is not None
    assert work.enqueued_at <= row.started_at <= row.completed_at
    assert ["CompletedWork", "Work"] == tables_with(work.pk)
    status = pool.status(work)
    assert (row.started_at, row.completed_at) == (
        status.started_at,
        status.completed_at,
    )


@pytest.mark.item("D2")
def test_an_error_is_recorded_and_frees_its_slot() -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.fail, {"message": "no such street"})
    after = pool.enqueue_action(functions.echo)

    executed(pool)
    run_pass(pool.name)

    result = pool.result(work)
    assert ("error", "ValueError", "no such street") == (
        result.kind,
        result.error_type,
        result.error,
    )
    assert result.return_value is None
    assert "in fail" in result.traceback
    assert WorkKind.IN_PROGRESS == pool.status(after).kind
    assert ["CompletedWork", "Work"] == tables_with(work.pk)


def premature(pool: Workpool, work: Work, hand_out: int) -> None:
    """Write a completion that no attempt of *work* stands behind."""
    PendingCompletion.objects.using("default").create(
        pool=pool.name,
        work_id=work.pk,
        hand_out=hand_out,
        status="success",
        return_value='"never returned"',
        finished_at=clock.now("default"),
    )


@pytest.mark.item("D3")
def test_a_completion_of_a_work_that_has_not_started_is_dropped_with_a_warning(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(max_parallelism=0)
    work = pool.enqueue_action(functions.echo, {"value": "returned"})
    premature(pool, work, hand_out=1)

    passed = run_pass(pool.name)
    counts = pool.debug_counts()
    pending = pool.status(work)
    pool.update(max_parallelism=1)
    drain(pool.name)

    assert passed is not None
    assert [""] == [done.status for done in passed.plan.completions]
    assert ["WARNING"] == [record.levelname for record in caplog.records]
    assert "dropped" in caplog.text
    assert (1, 0, 0) == (
        counts["pendingStart"],
        counts["inProgressWork"],
        counts["pendingCompletion"],
    )
    assert (WorkKind.PENDING, 0) == (pending.kind, pending.previous_attempts)
    assert "returned" == pool.result(work).return_value
    assert ids([work]) == journal.begins(pool.name)


@pytest.mark.item("D3")
def test_a_completion_of_another_hand_out_is_dropped_and_the_work_goes_on() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo, {"value": "returned"})
    run_pass(pool.name)
    row = InProgressWork.objects.using("default").get()
    premature(pool, work, hand_out=row.hand_out - 1)

    run_pass(pool.name)
    between = pool.status(work).kind
    drain(pool.name)

    assert WorkKind.IN_PROGRESS == between
    assert "returned" == pool.result(work).return_value


@pytest.mark.item("D3")
def test_a_completion_that_arrives_twice_counts_once() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo, {"value": "returned"})
    executed(pool)
    row = InProgressWork.objects.using("default").get()
    premature(pool, work, hand_out=row.hand_out)

    passed = run_pass(pool.name)

    assert passed is not None
    assert ["success", ""] == [done.status for done in passed.plan.completions]
    assert "returned" == pool.result(work).return_value
    assert not PendingCompletion.objects.using("default").exists()


@pytest.mark.item("D4")
def test_completions_written_while_no_runner_lived_are_consumed_by_bounded_passes(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh(max_parallelism=10_000)
    works = pool.enqueue_action_batch(functions.echo, [{}] * 5_000)
    while_pending(pool)
    executor = inline_executor()
    now = clock.now("default")
    complete.write(
        "default",
        [
            complete.Ending(
                assignment=assignment,
                worker_id=executor.worker.pk,
                status="success",
                started_at=now,
                finished_at=now,
                return_value="1",
            )
            for assignment in executor.fetch()
        ],
    )
    before = generation(pool)

    live("--no-workers")
    until(lambda: not completions(pool), "all completions to be consumed")

    assert 5_000 == CompletedWork.objects.using("default").for_pool(pool.name).count()
    # Protocol R5: 500 a pass.
    assert generation(pool) - before >= 10
    assert "success" == pool.status(works[-1]).completion_status
    assert not InProgressWork.objects.using("default").exists()


def while_pending(pool: Workpool) -> None:
    """Pass until nothing waits any more; runs nothing."""
    while PendingStart.objects.using("default").for_pool(pool.name).exists():
        run_pass(pool.name)


def generation(pool: Workpool) -> int:
    """Return the number of the pool's last pass."""
    return MainLoop.objects.using("default").get(pk=pool.name).generation


def completions(pool: Workpool) -> int:
    """Return how many completions wait for a pass."""
    return PendingCompletion.objects.using("default").for_pool(pool.name).count()


@pytest.mark.item("D17")
@pytest.mark.parametrize(
    "value",
    [None, 0, "", [], False],
    ids=["none", "zero", "empty-text", "empty-list", "false"],
)
@pytest.mark.parametrize("fn", [functions.echo, functions.async_echo])
def test_an_empty_return_value_is_read_back_exactly(
    fn: Callable[..., Any], value: object
) -> None:
    pool = fresh()
    work = pool.enqueue_action(fn, {"value": value})

    drain(pool.name)

    result = pool.result(work)
    assert ("success", type(value)) == (result.kind, type(result.return_value))
    assert value == result.return_value


@pytest.mark.item("D13")
def test_what_an_action_wrote_before_it_raised_remains() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.write_and_fail)

    drain(pool.name)

    effects = Effect.objects.using("default").values_list("work_id", "what")
    assert [(work.pk, "written")] == list(effects)
    result = pool.result(work)
    assert ("error", "RuntimeError", "after writing") == (
        result.kind,
        result.error_type,
        result.error,
    )
