"""Rows that cannot be: what is planted beside a work in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django_workpool.db import clock
from django_workpool.models import (
    CompletedWork,
    PendingCancelation,
    PendingCompletion,
    PendingStart,
    Work,
)

if TYPE_CHECKING:
    from uuid import UUID

    from django_workpool.engine.complete import Assignment

# Ranks before and behind those of all other works.
FIRST, LAST = -1, 1


def completion(bad: Assignment, **values: Any) -> None:
    """Write a completion beside the worker's own."""
    row = {
        "work_id": bad.work_id,
        "hand_out": bad.hand_out,
        "status": "success",
        "return_value": '"poison"',
        "finished_at": clock.now("default"),
        **values,
    }
    PendingCompletion.objects.using("default").create(pool=bad.pool, **row)


def pending(bad: Assignment, *, rank: int = FIRST, **values: Any) -> None:
    """Write a row that wants the work to start."""
    row = {
        "work_id": bad.work_id,
        "fn_handle": bad.fn_handle,
        "run_at": clock.now("default"),
        **values,
    }
    PendingStart.objects.using("default").create(pool=bad.pool, rank=rank, **row)


def completed(bad: Assignment) -> None:
    """Write a terminal record too early."""
    CompletedWork.objects.using("default").create(
        work_id=bad.work_id,
        pool=bad.pool,
        completion_status="success",
        return_value='"first"',
        completed_at=clock.now("default"),
    )


def canceled(work_id: UUID, pool: str) -> None:
    """Write a request."""
    PendingCancelation.objects.using("default").create(
        pool=pool, work_id=work_id, requested_at=clock.now("default")
    )


def completion_of_an_unknown_work(bad: Assignment) -> None:
    completion(bad, work_id=uuid4())


def completion_of_another_hand_out(bad: Assignment) -> None:
    completion(bad, hand_out=bad.hand_out + 1)


def completion_with_an_unknown_status(bad: Assignment) -> None:
    completion(bad, status="exploded")


def completion_twice(bad: Assignment) -> None:
    completion(bad)
    completion(bad, return_value='"second"')


def completion_of_a_completed_work(bad: Assignment) -> None:
    completed(bad)
    completion(bad)


def pending_row_before_all_others(bad: Assignment) -> None:
    pending(bad, rank=FIRST)


def pending_row_behind_all_others(bad: Assignment) -> None:
    pending(bad, rank=LAST)


def pending_row_and_completion(bad: Assignment) -> None:
    pending(bad)
    completion(bad)


def pending_row_and_request(bad: Assignment) -> None:
    pending(bad)
    canceled(bad.work_id, bad.pool)


def two_requests(bad: Assignment) -> None:
    canceled(bad.work_id, bad.pool)
    canceled(bad.work_id, bad.pool)


def request_of_an_unknown_work(bad: Assignment) -> None:
    canceled(uuid4(), bad.pool)


def no_work_row(bad: Assignment) -> None:
    Work.objects.using("default").filter(pk=bad.work_id).delete()


def no_work_row_and_completion(bad: Assignment) -> None:
    no_work_row(bad)
    completion(bad)
