"""Apply a plan: the phases of a pass, set-based, in their fixed order.

A row that cannot be moved is moved alone, so that it harms nobody but itself (R8).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.db import Error, transaction

from django_workpool import logs
from django_workpool.choices import CompletionStatus
from django_workpool.db import executor_statements, retry, statements
from django_workpool.exceptions import WorkerLostError
from django_workpool.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    from django_workpool.db.session import Session, Statement
    from django_workpool.planner.snapshot import PoolOptions
    from django_workpool.planner.steps import Loss, Plan


@dataclass
class Applied:
    """What a pass did that others must hear of, after its commit.

    ``assigned`` maps a worker to its new works, ``flagged`` to its canceled ones;
    ``ended`` lists (work, status) of works that ended without a worker.
    """

    assigned: dict[UUID, list[UUID]] = field(default_factory=dict)
    flagged: dict[UUID, list[UUID]] = field(default_factory=dict)
    ended: list[tuple[UUID, str]] = field(default_factory=list)
    cleaned: int = 0


def drop_doubled(session: Session, plan: Plan, now: datetime) -> None:
    """Before all phases: queue rows of works that are in progress must go."""
    if plan.doubled:
        logs.loop.error(
            "Queue rows of works that are in progress were dropped: %s", plan.doubled
        )
        rows = [(start,) for start in plan.doubled]
        session.write_rows(statements.DROP_START, rows, now=now)


def complete(session: Session, pool: PoolOptions, plan: Plan, now: datetime) -> None:
    """Phase 1: completions become terminal records and free their slots."""
    for entry in plan.completions:
        if not entry.status:
            logs.tell(
                logs.loop,
                logging.WARNING,
                pool.log_level,
                "A completion came late or twice and was dropped",
                pool=pool.name,
                workId=str(entry.work_id),
            )
    failpoint("completions.mid")
    rows = [(e.id, e.work_id, e.hand_out, e.status) for e in plan.completions]
    consume = statements.CONSUME_COMPLETIONS
    _move(session, consume, rows, now, statements.DROP_COMPLETION)
    failpoint("completions.end")


def cancel(session: Session, plan: Plan, applied: Applied, now: datetime) -> None:
    """Phase 2: what waits ends canceled, what runs is flagged."""
    rows = [(start,) for start, _ in plan.canceled]
    _move(session, statements.CANCEL_PENDING, rows, now, statements.DROP_START)
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


def recover(
    session: Session, pool: PoolOptions, plan: Plan, applied: Applied, now: datetime
) -> None:
    """Phase 3: works of dead workers are lost, or go back to their old place."""
    for loss in plan.lost:
        logs.tell(
            logs.loop,
            logging.WARNING,
            pool.log_level,
            "A work was lost with its worker",
            pool=pool.name,
            workId=str(loss.work_id),
            worker=str(loss.worker_id),
            lastExit=loss.last_exit,
        )
    rows = [_lost_row(loss) for loss in plan.lost]
    _move(session, statements.END_LOST, rows, now, statements.DROP_RUNNING)
    applied.ended += [(loss.work_id, loss.status) for loss in plan.lost]
    failpoint("recovery.mid")
    give_back = executor_statements.GIVE_BACK
    _move(session, give_back, plan.given_back, now, statements.DROP_RUNNING)
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
    _move(session, statements.START, rows, now, statements.DROP_START)
    for entry in plan.starts:
        applied.assigned.setdefault(entry.worker_id, []).append(entry.work_id)
    failpoint("starts.mid")


def _move(
    session: Session,
    statement: Statement,
    rows: Sequence[Sequence[object]],
    now: datetime,
    drop: Statement,
) -> None:
    """Move *rows*; if one of them cannot be moved, each alone, and *drop* that one."""

    def run(some: Sequence[Sequence[object]], what: Statement = statement) -> None:
        # A savepoint: on PostgreSQL an error would otherwise end the whole pass.
        with transaction.atomic(using=session.using):
            session.write_rows(what, some, now=now)

    if not rows:
        return
    try:
        run(rows)
    except Error as error:
        if retry.is_transient(error):
            raise
        for row in rows:
            _move_alone(run, row, drop)


def _move_alone(
    run: Callable[..., None], row: Sequence[object], drop: Statement
) -> None:
    try:
        run([row])
    except Error as error:
        if retry.is_transient(error):
            raise
        logs.loop.exception("A row cannot be moved, so its work ends: %r", row)
        run([row], drop)
