"""Conformance group H: where a work is."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_workpool import WorkNotFoundError, Workpool, testing
from django_workpool.models import MainLoop
from tests.app import functions
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.refusals import refusal
from tests.conformance.stumbling import armed, is_reached, wait_reached
from tests.conformance.tables import nothing_written
from tests.conformance.threads import closing

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool.models import Work
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def _kind(pool: Workpool, work: Work) -> tuple[str, int, str | None]:
    found = pool.status(work)
    return (found.kind, found.previous_attempts, found.completion_status)


@pytest.mark.item("H1")
@pytest.mark.parametrize(
    ("fn", "outcome"),
    [(functions.echo, "success"), (functions.fail, "error")],
    ids=["success", "error"],
)
def test_a_work_is_pending_then_in_progress_then_completed(
    fn: Callable[..., object], outcome: str, journal: Journal
) -> None:
    pool = fresh()

    work = pool.enqueue_action(fn)
    seen = [_kind(pool, work)]
    (assignment,) = begin(pool)
    seen.append(_kind(pool, work))
    end(assignment)
    testing.run_pass(pool.name)
    seen.append(_kind(pool, work))

    assert [
        ("pending", 0, None),
        ("in_progress", 0, None),
        ("completed", 0, outcome),
    ] == seen


@pytest.mark.item("H2")
def test_a_work_whose_completion_no_pass_has_consumed_is_in_progress(
    journal: Journal,
) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    (assignment,) = begin(pool)

    end(assignment)

    assert 1 == pool.debug_counts()["pendingCompletion"]
    assert ("in_progress", 0, None) == _kind(pool, work)
    assert pool.status(work).completed_at is None
    testing.run_pass(pool.name)
    assert ("completed", 0, "success") == _kind(pool, work)


@pytest.mark.item("H3")
def test_times_are_aware_in_order_and_none_before_they_happen(
    journal: Journal,
) -> None:
    pool = fresh()

    work = pool.enqueue_action(functions.echo)
    pending = pool.status(work)
    (assignment,) = begin(pool)
    in_progress = pool.status(work)
    end(assignment)
    testing.run_pass(pool.name)
    completed = pool.status(work)

    assert (None, None) == (pending.started_at, pending.completed_at)
    assert pending.run_at == pending.enqueued_at
    assert (None, None) == (in_progress.run_at, in_progress.completed_at)
    assert completed.run_at is None
    moments = [
        work.enqueued_at,
        pending.enqueued_at,
        in_progress.started_at,
        completed.started_at,
        completed.completed_at,
    ]
    assert [timedelta(0)] * 5 == [moment and moment.utcoffset() for moment in moments]
    assert moments == sorted(moment for moment in moments if moment is not None)
    assert {pending.enqueued_at} == {in_progress.enqueued_at, completed.enqueued_at}


@pytest.mark.item("H3")
def test_a_work_canceled_before_it_began_never_started(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)

    pool.cancel(work)
    testing.drain(pool.name)

    found = pool.status(work)
    assert found.started_at is None
    assert found.completed_at is not None
    assert found.enqueued_at <= found.completed_at


@pytest.mark.item("H4")
@pytest.mark.parametrize("name", ["status", "result", "wait", "explain", "cancel"])
def test_an_id_that_is_not_of_this_pool_is_not_found(
    name: str, journal: Journal
) -> None:
    pool, stranger = fresh(), fresh()
    foreign = stranger.enqueue_action(functions.echo)
    testing.drain(stranger.name)
    strange = [uuid4(), str(uuid4()), "no id", "", None, 7, foreign, str(foreign.pk)]

    with nothing_written():
        raised = [
            refusal(WorkNotFoundError, getattr(pool, name), found) for found in strange
        ]

    assert all(str(error.work_id) in str(error) for error in raised)
    assert str(foreign.pk) in str(raised[-1])


@pytest.mark.item("H5")
def test_status_batch_answers_in_input_order_in_one_query(
    journal: Journal, django_assert_num_queries: Any
) -> None:
    pool, stranger = fresh(max_parallelism=1), fresh()
    done, running, waiting = pool.enqueue_action_batch(functions.echo, [None] * 3)
    end(*begin(pool))
    begin(pool)
    foreign = stranger.enqueue_action(functions.echo)
    asked: list[Any] = [
        waiting,
        uuid4(),
        done,
        foreign,
        "no id",
        running,
        str(waiting.pk),
    ]

    with django_assert_num_queries(1, using="default"):
        found = pool.status_batch([*asked, done, done])

    kinds = [status and status.kind for status in found]
    assert [
        *("pending", None, "completed", None, None, "in_progress", "pending"),
        *("completed", "completed"),
    ] == kinds
    assert pool.status(waiting) == found[0] == found[6]
    assert pool.status(done) == found[2] == found[7] == found[8]


@pytest.mark.item("H5")
def test_status_batch_of_many_works_is_one_query(
    django_assert_num_queries: Any,
) -> None:
    pool = fresh()
    works = pool.enqueue_action_batch(functions.echo, [None] * 500)

    with django_assert_num_queries(1, using="default"):
        found = pool.status_batch(works)

    assert ["pending"] * 500 == [status and status.kind for status in found]


@pytest.mark.item("H5")
def test_status_batch_of_nothing_is_empty_and_asks_nothing(
    django_assert_num_queries: Any,
) -> None:
    pool = fresh()

    with django_assert_num_queries(0, using="default"):
        found = [pool.status_batch([]), pool.status_batch(["no id"])]

    assert [[], [None]] == found


@pytest.mark.item("H6")
@pytest.mark.parametrize("name", ["status", "result", "wait", "explain", "cancel"])
def test_a_work_its_id_and_the_text_of_it_mean_the_same(
    name: str, journal: Journal
) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo, {"value": 5})
    testing.drain(pool.name)
    forms: list[Any] = [work, work.pk, str(work.pk), work.pk.hex, str(work.pk).upper()]

    answers = [getattr(pool, name)(form) for form in forms]

    assert [getattr(pool, name)(work)] * 5 == answers
    assert [pool.status(work)] * 5 == pool.status_batch(forms)


@pytest.mark.item("H6")
def test_any_form_of_an_id_cancels_the_work(journal: Journal) -> None:
    pool = fresh()
    works = pool.enqueue_action_batch(functions.echo, [None] * 3)

    answers = [pool.cancel(works[0]), pool.cancel(works[1].pk)]
    answers.append(pool.cancel(str(works[2].pk)))
    testing.drain(pool.name)

    assert [True] * 3 == answers
    assert ["canceled"] * 3 == [pool.result(work).kind for work in works]


@pytest.mark.item("H7")
@pytest.mark.parametrize("name", ["status", "result", "explain"])
def test_no_field_of_an_answer_can_be_assigned(name: str, journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    testing.drain(pool.name)

    answer = getattr(pool, name)(work)
    refusals = [
        refusal(dataclasses.FrozenInstanceError, setattr, answer, field.name, 1)
        for field in dataclasses.fields(answer)
    ]

    assert refusals
    assert answer == getattr(pool, name)(work)


@pytest.mark.item("H8")
def test_status_neither_waits_for_an_open_pass_nor_locks(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    testing.inline_executor()

    with (
        armed("pass.before_commit=wait:pass", journal),
        ThreadPoolExecutor(1) as other,
    ):
        passing = other.submit(closing, lambda: testing.run_pass(pool.name))
        wait_reached(journal, "pass")
        with CaptureQueriesContext(connections["default"]) as queries:
            found = pool.status(work)
        was_open = not passing.done()
        journal.release("pass")
        passed = passing.result()

    assert was_open
    assert is_reached(journal, "pass")
    assert "pending" == found.kind
    (query,) = queries.captured_queries
    assert query["sql"].startswith("SELECT")
    assert " FOR " not in query["sql"]
    assert passed is not None
    assert "in_progress" == pool.status(work).kind
    assert 1 == MainLoop.objects.using("default").filter(pk=pool.name).count()
