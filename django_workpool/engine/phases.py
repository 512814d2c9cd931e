"""Apply a plan: the phases of a pass, set-based, in their fixed order.

A row that cannot be moved is moved alone, so that it harms nobody but itself (R8).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.db import Error, transaction

from django_workpool.choices import CompletionStatus
from django_workpool.db import executor_statements, retry, statements
from django_workpool.db.dialect import to_uuid
from django_workpool.exceptions import WorkerLostError
from django_workpool.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_workpool.db.session import Session, Statement
    from django_workpool.planner.steps import Loss, Plan

MAX_EXPIRED = 200

logger = logging.getLogger("django_workpool.loop")


@dataclass
class Applied:
    """What a pass did that others must hear of, after its commit.

    ``assigned`` maps a worker to its new works, ``flagged`` to its canceled ones;
    ``ended`` lists (work, status) of works that ended without a worker.
    """

    assigned: dict[UUID, list[UUID]] = field(default_factory=dict)
    flagged: dict[UUID, list[UUID]] = field(default_factory=dict)
    ended: list[tuple[UUID, str]] = field(default_factory=list)


def complete(session: Session, pool: str, plan: Plan) -> None:
    """Phase 1: completions become terminal records and free their slots."""
    for entry in plan.completions:
        if not entry.status:
            logger.warning(
                "A completion came late or twice and was dropped",
                extra={"workpool": {"pool": pool, "workId": str(entry.work_id)}},
            )
    failpoint("completions.mid")
    rows = [(e.id, e.work_id, e.hand_out, e.status) for e in plan.completions]
    _move(session, statements.CONSUME_COMPLETIONS, rows)
    failpoint("completions.end")


def cancel(session: Session, plan: Plan, applied: Applied, now: datetime) -> None:
    """Phase 2: what waits ends canceled, what runs is flagged."""
    _move(
        session,
        statements.CANCEL_PENDING,
        [(start,) for start, _ in plan.canceled],
        now,
    )
    applied.ended += [
        (work_id, CompletionStatus.CANCELED.value) for _, work_id in plan.canceled
    ]
    failpoint("cancelations.mid")
    session.write_rows(
        statements.FLAG_CANCELED, [(work_id,) for work_id, _ in plan.flagged]
    )
    for work_id, worker_id in plan.flagged:
        applied.flagged.setdefault(worker_id, []).append(work_id)
    session.write_rows(
        statements.DELETE_CANCELATIONS, [(number,) for number in plan.cancelations]
    )


def recover(session: Session, plan: Plan, applied: Applied, now: datetime) -> None:
    """Phase 3: works of dead workers are lost, or go back to their old place."""
    _move(session, statements.END_LOST, [_lost_row(loss) for loss in plan.lost], now)
    applied.ended += [(loss.work_id, loss.status) for loss in plan.lost]
    failpoint("recovery.mid")
    _move(session, executor_statements.GIVE_BACK, plan.given_back)
    session.write_rows(
        statements.COUNT_DEATHS, [(work_id,) for work_id in plan.restarted]
    )
    failpoint("recovery.end")


def _lost_row(loss: Loss) -> tuple[object, ...]:
    if not loss.had_begun:
        return (loss.work_id, loss.status, "", "")
    error = WorkerLostError(loss.worker_id, loss.attempt)
    text = f"{error} Its end: {loss.last_exit or 'unknown'}."
    return (loss.work_id, loss.status, type(error).__name__, text)


def start(session: Session, plan: Plan, applied: Applied, now: datetime) -> None:
    """Phase 4: due works are given to workers, each in a lane of its own."""
    failpoint("starts.after_plan")
    rows = [
        (s.id, s.is_async, s.hand_out, s.worker_id, s.lane, s.place)
        for s in plan.starts
    ]
    _move(session, statements.START, rows, now)
    for entry in plan.starts:
        applied.assigned.setdefault(entry.worker_id, []).append(entry.work_id)
    failpoint("starts.mid")


def clean(session: Session, pool: str, before: datetime | None) -> None:
    """Phase 5, cleanup: a chunk of ended works past the pool's ``status_ttl``."""
    if before is None:
        return
    rows = session.rows(statements.EXPIRED, pool=pool, before=before, limit=MAX_EXPIRED)
    failpoint("cleanup.mid")
    session.write_rows(statements.DELETE_EXPIRED, [(to_uuid(row[0]),) for row in rows])


def _move(
    session: Session,
    statement: Statement,
    rows: Sequence[Sequence[object]],
    now: datetime | None = None,
) -> None:
    """Move *rows*; if one of them cannot be moved, each alone, and leave that one."""
    if not rows:
        return
    extra = {} if now is None else {"now": now}

    def run(some: Sequence[Sequence[object]]) -> None:
        # A savepoint: on PostgreSQL an error would otherwise end the whole pass.
        with transaction.atomic(using=session.using):
            session.write_rows(statement, some, **extra)

    try:
        run(rows)
    except Error as error:
        if retry.is_transient(error):
            raise
        _alone(run, rows)


def _alone(
    run: Callable[[Sequence[Sequence[object]]], None], rows: Sequence[Sequence[object]]
) -> None:
    for row in rows:
        try:
            run([row])
        except Error as error:
            if retry.is_transient(error):
                raise
            logger.exception("A row cannot be moved and stays where it is: %r", row)
