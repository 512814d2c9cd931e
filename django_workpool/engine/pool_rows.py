"""Read a pool's options in force and its workers, in one statement."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_workpool import options as declared_options
from django_workpool.choices import WorkerState
from django_workpool.db import statements
from django_workpool.db.dialect import to_time, to_uuid
from django_workpool.engine import declare
from django_workpool.planner.snapshot import (
    Ended,
    Executing,
    PoolOptions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from django_workpool.db.session import Session

# So long after an enqueue its pool may be without a row, then the defaults hold.
DECLARATION_GRACE = timedelta(seconds=1)

_handles: dict[str, Mapping[str, str]] = {}


class PoolMissingError(Exception):
    """A pool has no row: nobody has declared it yet."""


def pool_and_workers(
    session: Session, pool: str
) -> tuple[
    PoolOptions, tuple[Executing, ...], tuple[Ended, ...], datetime, datetime | None
]:
    """Return options, ready and ended workers, the time, and the oldest ended work.

    Raises:
        PoolMissingError: The pool has no row.
    """
    rows = session.rows(statements.POOL_AND_WORKERS, pool=pool)
    if not rows:
        raise PoolMissingError(pool)
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


def may_insert(session: Session, pool: str) -> bool:
    """Say whether a pass may make the row of a pool that has none.

    Whoever enqueues declares right after his commit.  Until then only a process that
    knows the declaration may: another would start the works under the default limit.
    """
    if pool in declared_options.declared():
        return True
    rows = session.rows(statements.DUE_HEAD, pool=pool, limit=1)
    due_at = to_time(rows[0][4], session.using) if rows else None
    return due_at is None or due_at <= session.now() - DECLARATION_GRACE


def _executing(
    session: Session, pool: str, row: tuple[Any, ...]
) -> Iterable[Executing]:
    worker, pools, digest, threads, coroutines = row[8], *row[10:14]
    used_threads, used_coroutines = row[16:18]
    served = _json(pools)
    if served == [] or (isinstance(served, list) and pool in served):
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
        known = _json(rows[0][0])
        handles = _handles[digest] = known if isinstance(known, dict) else {}
    return handles


def _begun(text: str | None) -> frozenset[tuple[UUID, int]] | None:
    """Return what had begun; ``None``, which means all, where that cannot be read."""
    try:
        return frozenset((to_uuid(work), number) for work, number in _json(text))
    except (TypeError, ValueError):
        return None


def _json(text: str | None) -> Any:
    """Return a stored document; a spoiled one must not stop the loop."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None
