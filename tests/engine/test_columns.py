"""Protocol R12 and R14 to R16: what the columns hold, and what they are for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.db import connections

from django_workpool.engine import complete, workers
from django_workpool.engine.load import HEAD_MARGIN
from django_workpool.models import (
    CompletedWork,
    InProgressWork,
    PendingCompletion,
    PendingStart,
    Pool,
    Work,
)
from django_workpool.testing import clock, drain, inline_executor, run_pass
from tests.app import functions
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.sessions import statements
from tests.journal import ids

if TYPE_CHECKING:
    from django.db.models import Model

    from django_workpool import Workpool
    from django_workpool.models import Work as Row
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])


# --- R12 ----------------------------------------------------------------------------


def test_r12_the_head_has_one_index_in_exactly_its_order() -> None:
    connection = connections["default"]

    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(
            cursor, "workpool_pending_start"
        )

    head = found["workpool_start_head_idx"]
    assert ["pool", "held", "rank", "run_at", "id"] == head["columns"]
    # All ascending: an order that every database keeps in an index.
    assert {"ASC"} == set(head["orders"])


def test_r12_works_start_by_rank_then_time_then_arrival(journal: Journal) -> None:
    pool = fresh(max_parallelism=1)
    works = pool.enqueue_action_batch(functions.echo, [None] * 5)
    late, first, second, urgent, early = works
    place(late, rank=1)
    place(urgent, rank=-100)
    starts = PendingStart.objects.using("default")
    before = starts.get(work_id=early.pk).run_at.replace(year=2000)
    starts.filter(work_id=early.pk).update(run_at=before)

    drain(pool.name)

    assert ids([urgent, early, first, second, late]) == journal.begins(pool.name)


def test_r12_an_urgent_work_behind_a_long_queue_is_part_of_the_head() -> None:
    pool = fresh(max_parallelism=1)
    # More than a pass reads of the head.
    works = pool.enqueue_action_batch(functions.echo, [None] * (HEAD_MARGIN + 50))
    place(works[-1], rank=-100)

    run_pass(pool.name)

    assert works[-1].pk == InProgressWork.objects.using("default").get().pk


def test_r12_a_held_row_is_not_part_of_the_head(journal: Journal) -> None:
    pool = fresh(max_parallelism=1)
    held, due = pool.enqueue_action_batch(functions.echo, [None, None])
    starts = PendingStart.objects.using("default")
    starts.filter(work_id=held.pk).update(held="known_function")

    drain(pool.name)

    assert ids([due]) == journal.begins(pool.name)
    assert "pending" == pool.status(held).kind


def place(work: Row, *, rank: int) -> None:
    """Give a pending work another rank."""
    PendingStart.objects.using("default").filter(work_id=work.pk).update(rank=rank)


# --- R14 ----------------------------------------------------------------------------


def test_r14_a_work_in_progress_keeps_its_function_its_hand_out_and_its_place() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    place(work, rank=-7)
    old = PendingStart.objects.using("default").get()

    run_pass(pool.name)

    row = InProgressWork.objects.using("default").get()
    assert (old.fn_handle, old.pk, -7, old.run_at) == (
        row.fn_handle,
        row.start_id,
        row.rank,
        row.run_at,
    )
    assert work.enqueued_at <= row.handed_out_at


def test_r14_a_work_given_back_returns_to_its_old_place(journal: Journal) -> None:
    pool = fresh(max_parallelism=1)
    first = pool.enqueue_action(functions.echo)
    old = PendingStart.objects.using("default").values().get()
    (run,) = begin(pool)
    second = pool.enqueue_action(functions.echo)

    complete.give_back("default", [run.key])
    back = PendingStart.objects.using("default").values().get(work_id=first.pk)
    drain(pool.name)

    assert old == back
    assert ids([first, second]) == journal.begins(pool.name)
    assert 1 == CompletedWork.objects.using("default").get(pk=first.pk).attempts


def test_r14_only_deaths_behind_the_begin_of_a_mutation_are_counted() -> None:
    pool = fresh()
    begun, waiting = pool.enqueue_mutation_batch(functions.effect, [{}, {}])
    begun_run, _ = begin(pool)

    workers.ended(
        "default",
        inline_executor().worker.pk,
        is_dead=True,
        last_exit="exit code 1",
        begun=[begun_run.key],
    )
    run_pass(pool.name)

    deaths = dict(Work.objects.using("default").values_list("pk", "deaths"))
    assert {begun.pk: 1, waiting.pk: 0} == deaths


def test_r14_a_pass_that_only_completes_never_reads_a_work() -> None:
    pool = fresh()
    pool.enqueue_action_batch(functions.echo, [None, None])
    for run in begin(pool):
        end(run)

    with statements() as executed:
        passed = run_pass(pool.name, with_worker=False)

    assert passed is not None
    assert 2 == len(passed.plan.completions)
    assert [] == [sql for sql in executed if "workpool_work " in sql]


# --- R15 ----------------------------------------------------------------------------

TEXTS: list[tuple[type[Model], str]] = [
    (Work, "fn_args"),
    (PendingCompletion, "return_value"),
    (CompletedWork, "return_value"),
    (Pool, "overrides"),
]


@pytest.mark.parametrize(
    ("model", "column"),
    [pytest.param(*row, id=".".join(map(str, row))) for row in TEXTS],
)
def test_r15_values_are_text_for_the_database(model: type[Model], column: str) -> None:
    field = model._meta.get_field(column)

    kind = field.db_type(connections["default"])

    assert "text" == kind


# A JSON column would sort these keys, and write these numbers otherwise.
SHAPED = {"zz": 1.0, "a": [1e100, -0.0, 10**30, "\u2028"], "Z": {"b": 1, "aa": 2.50}}


def test_r15_values_pass_through_all_tables_as_they_were_written() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo, {"value": SHAPED})
    stored = Work.objects.using("default").get().fn_args
    (run,) = begin(pool)
    end(run)
    written = PendingCompletion.objects.using("default").get().return_value

    run_pass(pool.name)

    moved = CompletedWork.objects.using("default").get().return_value
    assert stored == run.fn_args
    assert written == moved
    assert list(SHAPED) == list(json.loads(str(moved)))
    assert repr(SHAPED) == repr(pool.result(work).return_value)


# --- R16 ----------------------------------------------------------------------------


def test_r16_started_at_is_the_hand_out_and_later_the_begin() -> None:
    with clock() as moment:
        pool = fresh()
        work = pool.enqueue_action(functions.echo)
        handed_out = moment.move(5)
        run_pass(pool.name)
        in_progress = pool.status(work).started_at
        begun = moment.move(5)
        drain(pool.name)
        completed = pool.status(work).started_at

    assert (handed_out, begun) == (in_progress, completed)


def test_r16_a_work_given_back_shows_pending_again() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    (run,) = begin(pool)
    before = pool.status(work)

    complete.give_back("default", [run.key])

    after = pool.status(work)
    assert ("in_progress", "pending") == (before.kind, after.kind)
    assert after.started_at is None
    assert 0 == after.previous_attempts


def test_r16_a_status_is_one_statement_wherever_the_works_are() -> None:
    pool = fresh(max_parallelism=2)
    works = everywhere(pool)

    with statements() as one:
        pool.status(works[0])
    with statements() as many:
        found = pool.status_batch(works)

    assert (1, 1) == (len(one), len(many))
    assert ["completed", "in_progress", "pending"] == [
        entry.kind for entry in found if entry
    ]


def everywhere(pool: Workpool) -> list[Row]:
    """Return a completed work, one in progress, and one that waits."""
    works = pool.enqueue_action_batch(functions.echo, [None, None])
    done, _ = begin(pool)
    end(done)
    run_pass(pool.name)
    pool.update(max_parallelism=1)
    return [*works, pool.enqueue_action(functions.echo)]
