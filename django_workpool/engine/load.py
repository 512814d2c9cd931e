"""Load one pool as a snapshot: narrow rows, in the order of protocol R1.

Python sees keys, kinds and numbers here, never a model, an argument or a result (R4).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django_workpool.choices import WorkerState
from django_workpool.db import statements
from django_workpool.db.dialect import to_keys, to_time, to_uuid
from django_workpool.engine import declare
from django_workpool.failpoints import failpoint
from django_workpool.planner.admission import MAX_STARTS
from django_workpool.planner.plan import MAX_CANCELATIONS, MAX_COMPLETIONS
from django_workpool.planner.snapshot import (
    Cancelation,
    Completion,
    Due,
    Ended,
    Executing,
    Lost,
    PoolOptions,
    Running,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from django_workpool.db.session import Session

# Beyond the free slots so many rows of the head are read, for those that must wait.
HEAD_MARGIN = 200

_handles: dict[str, Mapping[str, str]] = {}


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
        The snapshot and the database's time, never earlier than a due row's own.
    """
    # R1: in progress before everything that moves away from it.
    running = _running(session, pool)
    options, executing, ended, now, oldest = _pool_and_workers(session, pool)
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
    due = _due(session, pool, _head_limit(options, running, completions))
    return (
        Snapshot(
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
        ),
        # What lies in PendingStart is due, though its clock ran a little ahead.
        max([now, *(work.run_at for work in due)]),
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


def _pool_and_workers(
    session: Session, pool: str
) -> tuple[
    PoolOptions, tuple[Executing, ...], tuple[Ended, ...], datetime, datetime | None
]:
    rows = session.rows(statements.POOL_AND_WORKERS, pool=pool)
    if not rows:
        # A pool whose declaration never reached its row still runs (R35).
        declare.insert_missing(session.using, pool)
        rows = session.rows(statements.POOL_AND_WORKERS, pool=pool)
    options = declare.in_force(session.using, pool, rows[0][:6])
    now = to_time(rows[0][6], session.using) or datetime.now(tz=UTC)
    executing: list[Executing] = []
    ended: list[Ended] = []
    for row in rows:
        if row[8] is None:
            continue
        if row[9] == WorkerState.READY:
            executing.extend(_executing(session, pool, row))
        else:
            ended.append(Ended(to_uuid(row[8]), row[15], _begun(row[14])))
    # One order on every database, so that a plan does not depend on it.
    executing.sort(key=lambda worker: worker.id)
    oldest = to_time(rows[0][7], session.using)
    return options, tuple(executing), tuple(ended), now, oldest


def _executing(
    session: Session, pool: str, row: tuple[Any, ...]
) -> Iterable[Executing]:
    worker, pools, digest, threads, coroutines = row[8], *row[10:14]
    used_threads, used_coroutines = row[16:18]
    served = json.loads(pools)
    if not served or pool in served:
        yield Executing(
            id=to_uuid(worker),
            handles=_known(session, digest),
            free_threads=max(0, threads - used_threads),
            free_coroutines=max(0, coroutines - used_coroutines),
        )


def _known(session: Session, digest: str) -> Mapping[str, str]:
    """Return the functions behind a digest; read once in the life of a process."""
    handles = _handles.get(digest)
    if handles is None:
        rows = session.rows(statements.HANDLES, digest=digest)
        if not rows:
            return {}
        handles = _handles[digest] = json.loads(rows[0][0])
    return handles


def _begun(text: str | None) -> frozenset[tuple[UUID, int]] | None:
    if text is None:
        return None
    return frozenset((to_uuid(work), number) for work, number in json.loads(text))


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


def _due(session: Session, pool: str, limit: int) -> tuple[Due, ...]:
    rows = session.rows(statements.DUE_HEAD, pool=pool, limit=limit)
    return tuple(
        Due(
            number,
            to_uuid(work),
            handle,
            rank,
            to_time(run_at, session.using) or datetime.max.replace(tzinfo=UTC),
        )
        for number, work, handle, rank, run_at in rows
    )


def _lost(session: Session, orphans: frozenset[UUID]) -> dict[UUID, Lost]:
    if not orphans:
        return {}
    keys = to_keys(((work,) for work in sorted(orphans)), session.using)
    rows = session.rows(statements.LOST_WORKS, keys=keys)
    return {to_uuid(work): Lost(kind, deaths) for work, kind, deaths in rows}
