"""Events and signals: facts told once, after they are committed, to whoever listens.

A receiver that raises is logged and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_workpool import logs, signals
from django_workpool.db import clock
from django_workpool.engine.counts import options_in_force
from django_workpool.models import CompletedWork, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_workpool.engine.complete import Ending


def has_receivers() -> bool:
    """Say whether anybody listens to the begin of a work."""
    return bool(signals.work_started.receivers)


def enqueued(works: Iterable[Work], level: str) -> None:
    """Tell that works were enqueued; called after the commit."""
    for work in works:
        logs.emit(
            "enqueued",
            level,
            {
                "workId": str(work.pk),
                "fnName": work.fn_name,
                "pool": work.pool,
                "enqueuedAt": logs.milliseconds(work.enqueued_at),
            },
        )
        signals.work_enqueued.send_robust(
            sender=Work, work_id=work.pk, pool=work.pool, fn_name=work.fn_name
        )


def started(
    *,
    work_id: UUID,
    pool: str,
    fn_name: str,
    attempt: int,
    enqueued_at: datetime | None,
    run_at: datetime | None,
    started_at: datetime,
    level: str,
) -> None:
    """Tell that an attempt begins; called in the process that executes it."""
    logs.emit(
        "started",
        level,
        {
            "workId": str(work_id),
            "fnName": fn_name,
            "pool": pool,
            "attempt": attempt,
            "enqueuedAt": logs.milliseconds(enqueued_at),
            "startedAt": logs.milliseconds(started_at),
            "lagSinceEnqueued": logs.lag_ms(enqueued_at, started_at),
            "startLag": logs.lag_ms(run_at, started_at),
        },
    )
    signals.work_started.send_robust(
        sender=Work, work_id=work_id, pool=pool, fn_name=fn_name, attempt=attempt
    )


def completed(
    *,
    work_id: UUID,
    pool: str,
    fn_name: str,
    attempt: int,
    status: str,
    enqueued_at: datetime | None,
    completed_at: datetime | None,
    level: str,
) -> None:
    """Tell that a work ended; called after its completion is committed."""
    logs.emit(
        "completed",
        level,
        {
            "workId": str(work_id),
            "fnName": fn_name,
            "pool": pool,
            "attempt": attempt,
            "status": status,
            "enqueuedAt": logs.milliseconds(enqueued_at),
            "completedAt": logs.milliseconds(completed_at),
            "lagSinceEnqueued": logs.lag_ms(enqueued_at, completed_at),
        },
    )
    signals.work_completed.send_robust(
        sender=Work,
        work_id=work_id,
        pool=pool,
        fn_name=fn_name,
        attempt=attempt,
        status=status,
    )


def ending(end: Ending, status: str) -> None:
    """Tell of the end of an attempt that a worker executed."""
    assignment = end.assignment
    completed(
        work_id=assignment.work_id,
        pool=assignment.pool,
        fn_name=assignment.fn_name,
        attempt=assignment.attempt,
        status=status,
        enqueued_at=assignment.enqueued_at,
        completed_at=end.finished_at,
        level=assignment.level,
    )


def ended(using: str, works: Sequence[tuple[UUID, str]]) -> None:
    """Tell of works that ended without a worker: canceled while waiting, or lost."""
    if not works:
        return
    ids = [work_id for work_id, _ in works]
    rows = Work.objects.using(using).in_bulk(ids)
    ends = CompletedWork.objects.using(using).in_bulk(ids)
    levels: dict[str, str] = {}
    for work_id, status in works:
        work, end = rows.get(work_id), ends.get(work_id)
        if work is None or end is None:
            continue
        if work.pool not in levels:
            levels[work.pool] = options_in_force(using, work.pool).log_level
        completed(
            work_id=work_id,
            pool=work.pool,
            fn_name=work.fn_name,
            attempt=end.attempts,
            status=status,
            enqueued_at=clock.as_utc(work.enqueued_at, using),
            completed_at=clock.as_utc(end.completed_at, using),
            level=levels[work.pool],
        )
