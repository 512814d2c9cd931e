"""Where a work is, how it ended, and what its pool holds: reads for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Subquery

from django_workpool import arguments
from django_workpool.choices import CompletionStatus, WorkKind
from django_workpool.db import clock
from django_workpool.exceptions import WorkNotFinishedError, WorkNotFoundError
from django_workpool.models import (
    CompletedWork,
    InProgressWork,
    PendingCancelation,
    PendingStart,
    Work,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from django.db.models import Model, QuerySet


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStatus:
    """Where a work is, at one instant.

    ``kind`` is pending, in_progress (handed to a worker) or completed, then
    ``completion_status`` is success, error, canceled or timeout.
    ``previous_attempts`` counts the counted attempts before the current or last one.
    ``run_at`` is the due time while pending.  ``started_at`` is the hand-out while in
    progress and the begin once completed.  All times are aware; those that have not
    come are ``None``.
    """

    kind: str
    previous_attempts: int
    completion_status: str | None
    cancel_requested: bool
    enqueued_at: datetime
    run_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a work ended.

    ``kind`` is success, error, canceled or timeout.  ``return_value`` is what the
    function returned; ``None`` unless the kind is success.  ``error_type``, ``error``
    and ``traceback`` are texts, empty after a success.
    """

    kind: str
    return_value: Any
    error_type: str
    error: str
    traceback: str


def to_id(work: Work | UUID | str) -> UUID:
    """Return the id that a row, an id or the text of one means.

    Raises:
        WorkNotFoundError: Nothing of these.
    """
    if isinstance(work, Work):
        return work.pk
    if isinstance(work, UUID):
        return work
    if isinstance(work, str):
        try:
            return UUID(work)
        except ValueError:
            raise WorkNotFoundError(work) from None
    raise WorkNotFoundError(repr(work))


def statuses(
    using: str, pool: str, works: Iterable[Work | UUID | str]
) -> list[WorkStatus | None]:
    """Return the status of each work, in input order, in one query.

    Unknown, malformed and other pools' ids give ``None``.
    """
    ids = [_id_or_none(work) for work in works]
    wanted = {work_id for work_id in ids if work_id is not None}
    if not wanted:
        return [None for _ in ids]
    rows = _with_times(Work.objects.using(using).for_pool(pool).filter(pk__in=wanted))
    found = {row["pk"]: _status(using, row) for row in rows}
    return [None if work_id is None else found.get(work_id) for work_id in ids]


def status(using: str, pool: str, work: Work | UUID | str) -> WorkStatus:
    """Return the status of one work, in one query and without a lock.

    Raises:
        WorkNotFoundError: Unknown, of another pool, or cleaned up.
    """
    work_id = to_id(work)
    (found,) = statuses(using, pool, [work_id])
    if found is None:
        raise WorkNotFoundError(work_id)
    return found


def result(using: str, pool: str, work: Work | UUID | str) -> Result:
    """Return how a work ended.

    Raises:
        WorkNotFoundError: Unknown, of another pool, or cleaned up.
        WorkNotFinishedError: It has not ended.
    """
    work_id = to_id(work)
    row = CompletedWork.objects.using(using).for_pool(pool).filter(pk=work_id).first()
    if row is None:
        raise WorkNotFinishedError(work_id, status(using, pool, work_id).kind)
    value = None
    if row.completion_status == CompletionStatus.SUCCESS and row.return_value:
        value = arguments.decode(row.return_value)
    return Result(
        kind=row.completion_status,
        return_value=value,
        error_type=row.error_type,
        error=row.error,
        traceback=row.traceback,
    )


def _id_or_none(work: Work | UUID | str) -> UUID | None:
    try:
        return to_id(work)
    except WorkNotFoundError:
        return None


def _first(model: type[Model], field: str) -> Subquery:
    rows = model._default_manager.filter(work_id=OuterRef("pk"))
    return Subquery(rows.values(field)[:1])


def _with_times(works: QuerySet[Work]) -> QuerySet[Work, dict[str, Any]]:
    requests = PendingCancelation.objects.filter(work_id=OuterRef("pk"))
    return works.with_status().values(  # type: ignore[attr-defined,no-any-return]
        "pk",
        "enqueued_at",
        "kind",
        "completion_status",
        "previous_attempts",
        due_at=_first(PendingStart, "run_at"),
        handed_out_at=_first(InProgressWork, "handed_out_at"),
        is_flagged=_first(InProgressWork, "cancel_requested"),
        is_asked=Exists(requests),
        begun_at=_first(CompletedWork, "started_at"),
        ended_at=_first(CompletedWork, "completed_at"),
    )


def _status(using: str, row: dict[str, Any]) -> WorkStatus:
    is_completed = row["kind"] == WorkKind.COMPLETED

    def moment(name: str) -> datetime | None:
        return None if row[name] is None else clock.as_utc(row[name], using)

    return WorkStatus(
        kind=str(row["kind"]),
        previous_attempts=row["previous_attempts"],
        completion_status=row["completion_status"],
        cancel_requested=not is_completed
        and bool(row["is_flagged"] or row["is_asked"]),
        enqueued_at=clock.as_utc(row["enqueued_at"], using),
        run_at=moment("due_at"),
        started_at=moment("begun_at" if is_completed else "handed_out_at"),
        completed_at=moment("ended_at"),
    )
