"""Faults E13: rows that cannot be, and the passes that meet them.

Whatever stands in the tables, a pass handles every other row at once, each poisoned row
is gone after it, and the loop comes to rest.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from django_workpool.engine import complete, workers
from django_workpool.models import (
    CompletedWork,
    InProgressWork,
    PendingCancelation,
    PendingCompletion,
    PendingStart,
    Work,
)
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.engine.poison import (
    FIRST,
    LAST,
    canceled,
    completed,
    completion_of_a_completed_work,
    completion_of_an_unknown_work,
    completion_of_another_hand_out,
    completion_twice,
    completion_with_an_unknown_status,
    no_work_row,
    no_work_row_and_completion,
    pending,
    pending_row_and_completion,
    pending_row_and_request,
    pending_row_before_all_others,
    pending_row_behind_all_others,
    request_of_an_unknown_work,
    two_requests,
)
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import Model

    from django_workpool import Workpool
    from django_workpool.engine.complete import Assignment
    from django_workpool.engine.loop import Passed
    from tests.journal import Journal

    Plant = Callable[[Assignment], object]

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])


def rows(model: type[Model], pool: Workpool) -> int:
    """Return the number of rows that a pool has in a table."""
    return model._default_manager.using("default").filter(pool=pool.name).count()


def waiting_rows(pool: Workpool) -> int:
    """Return the number of rows that still wait for a pass."""
    tables = (PendingStart, PendingCompletion, PendingCancelation, InProgressWork)
    return sum(rows(table, pool) for table in tables)


def passes(pool: Workpool, number: int) -> list[Passed | None]:
    """Run so many passes, without running any work."""
    return [run_pass(pool.name, with_worker=False) for _ in range(number)]


RUNNING_PLANTS: list[tuple[Plant, str, bool]] = [
    # How the work ends at last, and whether it still runs after the next pass.
    (completion_of_an_unknown_work, "success", True),
    (completion_of_another_hand_out, "success", True),
    (completion_with_an_unknown_status, "error", False),
    (completion_twice, "success", False),
    (completion_of_a_completed_work, "success", False),
    (pending_row_before_all_others, "success", True),
    (pending_row_behind_all_others, "success", True),
    (pending_row_and_completion, "success", False),
    (pending_row_and_request, "success", True),
    (two_requests, "success", True),
    (request_of_an_unknown_work, "success", True),
    (no_work_row, "success", True),
    (no_work_row_and_completion, "success", False),
]


@pytest.mark.parametrize(
    ("plant", "outcome", "still_runs"),
    [pytest.param(*row, id=row[0].__name__) for row in RUNNING_PLANTS],
)
def test_a_poisoned_row_of_a_work_in_progress_harms_nobody_else(
    plant: Plant, outcome: str, still_runs: bool, journal: Journal
) -> None:
    pool = fresh(max_parallelism=10)
    bad_work, good = pool.enqueue_action_batch(functions.echo, [None, None])
    bad_run, good_run = begin(pool)
    end(good_run)
    due = pool.enqueue_action_batch(functions.echo, [None] * 3)

    plant(bad_run)
    first, *_, last = passes(pool, 3)
    seen = [entry.kind for entry in pool.status_batch([good, *due]) if entry]
    running = set(InProgressWork.objects.using("default").values_list("pk", flat=True))
    end(bad_run)
    drain(pool.name)

    assert first is not None
    assert last is not None
    assert ["completed", "in_progress", "in_progress", "in_progress"] == seen
    assert [good.pk] == [
        e.work_id for e in first.plan.completions if e.work_id == good.pk
    ]
    assert {work.pk for work in due} <= {entry.work_id for entry in first.plan.starts}
    assert still_runs == (bad_run.work_id in running)
    assert not last.is_running
    assert 0 == waiting_rows(pool)
    ended = CompletedWork.objects.using("default").in_bulk()
    assert outcome == ended[bad_run.work_id].completion_status
    assert {"success"} == {ended[work.pk].completion_status for work in [good, *due]}
    assert 5 == len(ended)
    assert sorted(ids([bad_work, good, *due])) == sorted(journal.begins(pool.name))


def test_a_pending_row_of_a_running_work_gives_nobody_its_slot(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.echo)
    (run,) = begin(pool)
    after = pool.enqueue_action(functions.echo)

    pending(run, rank=LAST)
    passes(pool, 2)
    running = list(InProgressWork.objects.using("default").values_list("pk", flat=True))
    end(run)
    drain(pool.name)

    assert [work.pk] == running
    assert ids([work, after]) == journal.begins(pool.name)
    assert ["success", "success"] == [
        pool.status(one).completion_status for one in (work, after)
    ]


@pytest.mark.parametrize("rank", [FIRST, LAST], ids=["first", "last"])
def test_a_pending_row_of_a_completed_work_is_dropped_and_nothing_runs_again(
    rank: int, journal: Journal
) -> None:
    pool = fresh()
    done = pool.enqueue_action(functions.echo, {"value": "kept"})
    (run,) = begin(pool)
    end(run)
    passes(pool, 2)
    due = pool.enqueue_action(functions.echo)

    pending(run, rank=rank)
    first, *_, last = passes(pool, 3)
    drain(pool.name)

    assert first is not None
    assert last is not None
    assert due.pk in {entry.work_id for entry in first.plan.starts}
    assert not last.is_running
    assert 0 == waiting_rows(pool)
    assert "kept" == pool.result(done).return_value
    assert ids([done, due]) == journal.begins(pool.name)


def test_a_canceled_pending_row_of_a_completed_work_changes_no_outcome() -> None:
    pool = fresh()
    done = pool.enqueue_action(functions.echo, {"value": "kept"})
    due = pool.enqueue_action(functions.echo)
    run, other = begin(pool)
    end(run)
    end(other)
    passes(pool, 1)

    pending_row_and_request(run)
    passes(pool, 1)

    assert 0 == waiting_rows(pool)
    assert ["success", "success"] == [
        pool.status(work).completion_status for work in (done, due)
    ]
    assert "kept" == pool.result(done).return_value


def test_a_pending_row_without_its_work_is_dropped_and_takes_no_slot(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    gone, due = pool.enqueue_action_batch(functions.echo, [None, None])
    Work.objects.using("default").filter(pk=gone.pk).delete()
    inline_executor()

    passes(pool, 2)
    kind = pool.status(due).kind
    drain(pool.name)

    assert "in_progress" == kind
    assert 0 == waiting_rows(pool)
    assert ids([due]) == journal.begins(pool.name)


def test_a_work_in_progress_without_its_row_ends_as_error_when_it_begins(
    journal: Journal,
) -> None:
    pool = fresh()
    gone, due = pool.enqueue_action_batch(functions.echo, [None, None])
    run_pass(pool.name)
    Work.objects.using("default").filter(pk=gone.pk).delete()

    drain(pool.name)

    ended = CompletedWork.objects.using("default").in_bulk()
    assert ("error", "LookupError") == (
        ended[gone.pk].completion_status,
        ended[gone.pk].error_type,
    )
    assert "success" == ended[due.pk].completion_status
    assert 0 == waiting_rows(pool)
    assert ids([due]) == journal.begins(pool.name)


def worker_died(*, begun: bool) -> None:
    """Prove the death of the inline worker."""
    keys: list[complete.Key] | None = None if begun else []
    worker = inline_executor().worker.pk
    workers.ended("default", worker, is_dead=True, last_exit="exit code 1", begun=keys)


@pytest.mark.parametrize(
    ("plant", "begun", "outcome"),
    [
        pytest.param(completed, True, "success", id="completed-too-begun"),
        pytest.param(completed, False, "success", id="completed-too-not-begun"),
        pytest.param(pending, True, "error", id="pending-too-begun"),
        pytest.param(pending, False, "success", id="pending-too-not-begun"),
        pytest.param(no_work_row, True, "error", id="no-work-row-begun"),
        # Nothing is left of it that could have an outcome.
        pytest.param(no_work_row, False, None, id="no-work-row-not-begun"),
    ],
)
def test_recovery_of_a_poisoned_row_leaves_the_others_alone(
    plant: Plant, begun: bool, outcome: str | None
) -> None:
    pool = fresh()
    pool.enqueue_action_batch(functions.echo, [None, None])
    bad_run, good_run = begin(pool)

    plant(bad_run)
    worker_died(begun=begun)
    *_, last = passes(pool, 3)
    in_progress = rows(InProgressWork, pool)
    drain(pool.name)

    assert last is not None
    assert not last.is_running
    assert 0 == in_progress
    assert 0 == waiting_rows(pool)
    records = CompletedWork.objects.using("default")
    statuses = dict(records.values_list("pk", "completion_status"))
    assert outcome == statuses.get(bad_run.work_id)
    assert ("error" if begun else "success") == statuses[good_run.work_id]


def test_what_a_worker_gives_back_is_not_held_up_by_a_poisoned_row() -> None:
    pool = fresh(max_parallelism=2)
    bad, good = pool.enqueue_action_batch(functions.echo, [None, None])
    bad_run, good_run = begin(pool)
    pool.pause()

    pending(bad_run)
    complete.give_back("default", [bad_run.key, good_run.key])

    assert ["pending", "pending"] == [pool.status(work).kind for work in (bad, good)]
    assert 0 == rows(InProgressWork, pool)
    assert 2 == rows(PendingStart, pool)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
    ids=["long-ago", "at-the-end-of-time"],
)
def test_a_pending_row_of_a_strange_time_runs_and_ages_no_record(
    moment: datetime, journal: Journal
) -> None:
    pool = fresh(max_parallelism=1, status_ttl=timedelta(days=1))
    done = pool.enqueue_action(functions.echo)
    drain(pool.name)
    strange, due = pool.enqueue_action_batch(functions.echo, [None, None])
    starts = PendingStart.objects.using("default").filter(work_id=strange.pk)
    starts.update(run_at=moment)
    canceled(due.pk, pool.name)

    drain(pool.name)

    assert ["success", "success", "canceled"] == [
        entry and entry.completion_status
        for entry in pool.status_batch([done, strange, due])
    ]
    assert ids([done, strange]) == journal.begins(pool.name)
