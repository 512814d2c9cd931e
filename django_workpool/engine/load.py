"""Load one pool as a snapshot: narrow rows, in the order of protocol R1.

Python sees keys, kinds and numbers here, never a model, an argument or a result (R4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django_workpool.db import statements
from django_workpool.db.dialect import to_keys, to_time, to_uuid
from django_workpool.engine.pool_rows import pool_and_workers
from django_workpool.failpoints import failpoint
from django_workpool.planner.admission import MAX_STARTS
from django_workpool.planner.plan import MAX_CANCELATIONS, MAX_COMPLETIONS
from django_workpool.planner.snapshot import (
    Cancelation,
    Completion,
    Due,
    Ended,
    Lost,
    PoolOptions,
    Running,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

    from django_workpool.db.session import Session

# Beyond the free slots so many rows of the head are read, for those that must wait.
HEAD_MARGIN = 200


def load(
    session: Session, pool: str, generation: int, *, is_locked: bool
) -> tuple[Snapshot, datetime]:
    """Read one pool.

    Args:
        session: The statements on the pool's database.
        pool: Its name.
        generation: Of the pass that reads; part of every hand-out number.
        is_locked: Whether ``MainLoop`` is locked; without it nothing is locked here,
            and the snapshot serves a look, not a pass.

    Returns:
        The snapshot and the database's time.
    """
    # R1: in progress before everything that moves away from it.
    running = _running(session, pool)
    options, executing, ended, now, oldest = pool_and_workers(session, pool)
    failpoint("recovery.after_read")
    orphans = _orphans(running, ended)
    unavailable = _lock(session, orphans) if is_locked else frozenset()
    completions = _completions(session, pool, orphans)
    failpoint("completions.after_read")
    cancelations = _cancelations(session, pool)
    if is_locked:
        in_progress = {row.work_id for row in running}
        named = {entry.work_id for entry in completions}
        named |= {request.work_id for request in cancelations}
        unavailable |= _lock(session, (named & in_progress) - orphans)
    due = _due(session, pool, _head_limit(options, running, completions), now)
    snapshot = Snapshot(
        pool=options,
        generation=generation,
        running=running,
        completions=completions,
        cancelations=cancelations,
        due=due,
        workers=executing,
        ended=ended,
        lost=_lost(session, orphans),
        unavailable=unavailable,
        oldest_completed_at=oldest,
    )
    return _without_doubles(session, snapshot), now


def _without_doubles(session: Session, snapshot: Snapshot) -> Snapshot:
    """Settle works that were seen in progress and then pending, too (R1).

    A give-back moves its row in one commit, so what is still in progress afterwards was
    never given back: its queue row is a stray, and must not cost anybody a slot.
    """
    waiting = {work.work_id: work.id for work in snapshot.due}
    for request in snapshot.cancelations:
        if request.start_id is not None:
            waiting[request.work_id] = request.start_id
    doubles = sorted({row.work_id for row in snapshot.running} & waiting.keys())
    if not doubles:
        return snapshot
    keys = to_keys(((work,) for work in doubles), session.using)
    rows = session.rows(statements.STILL_IN_PROGRESS, keys=keys)
    still = {to_uuid(row[0]) for row in rows}
    back = set(doubles) - still
    return replace(
        snapshot,
        running=tuple(row for row in snapshot.running if row.work_id not in back),
        due=tuple(work for work in snapshot.due if work.work_id not in still),
        cancelations=tuple(
            replace(request, start_id=None) if request.work_id in still else request
            for request in snapshot.cancelations
        ),
        doubled=tuple(waiting[work_id] for work_id in doubles if work_id in still),
    )


def _running(session: Session, pool: str) -> tuple[Running, ...]:
    return tuple(
        Running(
            work_id=to_uuid(row[0]),
            hand_out=row[1],
            attempt=row[2],
            worker_id=to_uuid(row[3]),
            lane=row[4],
            place=row[5],
            is_async=bool(row[6]),
            cancel_requested=bool(row[7]),
        )
        for row in session.rows(statements.IN_PROGRESS, pool=pool)
    )


def _orphans(running: Iterable[Running], ended: Iterable[Ended]) -> frozenset[UUID]:
    workers = {worker.id for worker in ended}
    return frozenset(row.work_id for row in running if row.worker_id in workers)


def _lock(session: Session, works: Iterable[UUID]) -> frozenset[UUID]:
    """Lock in-progress rows; return those that somebody holds or has taken (R2)."""
    wanted = sorted(works)
    if not wanted or not session.dialect.has_row_locks:
        return frozenset()
    rows = session.rows(
        statements.LOCK_IN_PROGRESS,
        keys=to_keys(((work,) for work in wanted), session.using),
    )
    return frozenset(wanted) - {to_uuid(row[0]) for row in rows}


def _completions(
    session: Session, pool: str, orphans: frozenset[UUID]
) -> tuple[Completion, ...]:
    """Read the oldest completions, and all of the orphans, whose rows are locked (R30).

    A mutation that committed before its row could be locked keeps its outcome.
    """
    rows = session.rows(statements.COMPLETIONS, pool=pool, limit=MAX_COMPLETIONS)
    if orphans:
        seen = {row[0] for row in rows}
        more = session.rows(
            statements.COMPLETIONS_OF,
            pool=pool,
            keys=to_keys(((work,) for work in sorted(orphans)), session.using),
        )
        rows += [row for row in more if row[0] not in seen]
    return tuple(
        Completion(number, to_uuid(work), hand_out, status)
        for number, work, hand_out, status in rows
    )


def _cancelations(session: Session, pool: str) -> tuple[Cancelation, ...]:
    rows = session.rows(statements.CANCELATIONS, pool=pool, limit=MAX_CANCELATIONS)
    return tuple(
        Cancelation(number, to_uuid(work), start) for number, work, start in rows
    )


def _head_limit(
    options: PoolOptions, running: Iterable[Running], completions: Iterable[Completion]
) -> int:
    ending = {entry.work_id for entry in completions}
    lanes = {row.lane for row in running if row.work_id not in ending}
    free = max(0, options.max_parallelism - len(lanes))
    return min(MAX_STARTS, free + HEAD_MARGIN)


def _due(session: Session, pool: str, limit: int, now: datetime) -> tuple[Due, ...]:
    rows = session.rows(statements.DUE_HEAD, pool=pool, limit=limit)
    return tuple(
        Due(
            number,
            to_uuid(work),
            handle,
            rank,
            # What lies in PendingStart is due, though its clock ran ahead of ours.
            min(to_time(run_at, session.using) or now, now),
        )
        for number, work, handle, rank, run_at in rows
    )


def _lost(session: Session, orphans: frozenset[UUID]) -> dict[UUID, Lost]:
    if not orphans:
        return {}
    keys = to_keys(((work,) for work in sorted(orphans)), session.using)
    rows = session.rows(statements.LOST_WORKS, keys=keys)
    return {to_uuid(work): Lost(kind, deaths) for work, kind, deaths in rows}
