"""One pass: lock, load, plan, apply, commit, and tell what it did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django_workpool.choices import LoopState
from django_workpool.db import serial, statements
from django_workpool.db.session import Session
from django_workpool.engine import declare, phases
from django_workpool.engine.cleanup import clean
from django_workpool.engine.load import load
from django_workpool.engine.pool_rows import PoolMissingError, may_insert
from django_workpool.failpoints import failpoint
from django_workpool.logs import PhaseTimer
from django_workpool.planner.plan import plan
from django_workpool.planner.snapshot import Snapshot

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_workpool.planner.due import Next
    from django_workpool.planner.snapshot import PoolOptions
    from django_workpool.planner.steps import Plan


@dataclass(frozen=True)
class Passed:
    """A committed pass."""

    pool: str
    generation: int
    plan: Plan
    applied: phases.Applied
    next: Next
    milliseconds: float

    @property
    def is_running(self) -> bool:
        """Whether the loop must pass again at once."""
        return self.next.state == LoopState.RUNNING


def run_pass(using: str, pool: str, runner_id: UUID | None = None) -> Passed | None:
    """Run exactly one pass of *pool*, unless another process runs one just now.

    Args:
        using: The pool's database.
        pool: Its name.
        runner_id: Who passes; stored for people.

    Returns:
        What was done; ``None`` if somebody else holds the pool.
    """
    session = Session(using)
    try:
        return _pass(session, pool, runner_id)
    except PoolMissingError:
        # A pool whose declaration never reached its row still runs (R35).  The row is
        # made in a transaction of its own: a caller of enqueue may be about to make it
        # too, and must not wait for a pass.
        if not may_insert(session, pool):
            return None
        declare.insert_missing(using, pool)
        return _pass(session, pool, runner_id)


def _pass(session: Session, pool: str, runner_id: UUID | None) -> Passed | None:
    with serial.pass_unit(session.using):
        # R1: the lock is a statement of its own, and every read follows it.
        generation = _lock(session, pool)
        if generation is None:
            return None
        # From here the lock is held; the wait for it is nobody's rest (R39).
        timer = PhaseTimer()
        failpoint("pass.locked")
        with timer.phase("load"):
            snapshot, now = load(session, pool, generation, is_locked=True)
        with timer.phase("plan"):
            decided = plan(snapshot, now)
        applied = _apply(session, snapshot.pool, decided, now, timer)
        if decided.is_only_cleanup and not applied.cleaned:
            # All of it is protected by rows of the project: no reason to go on.
            decided = plan(without_expired(snapshot), now)
        failpoint("next.before_write")
        session.write(
            statements.UPDATE_LOOP,
            pool=pool,
            state=decided.next.state,
            run_at=decided.next.run_at,
            saturated=decided.next.is_saturated,
            generation=generation,
            runner=runner_id,
            now=now,
            pass_ms=timer.elapsed_ms(),
        )
        failpoint("pass.before_commit")
    failpoint("pass.after_commit")
    timer.show(pool, snapshot.pool.log_level)
    return Passed(pool, generation, decided, applied, decided.next, timer.elapsed_ms())


def without_expired(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as if nothing were to be cleaned."""
    return replace(snapshot, oldest_completed_at=None)


def has_something_to_do(using: str, pool: str, after: Passed | None = None) -> bool:
    """Say whether a pass would change anything; as ``look``."""
    seen = look(using, pool, after)
    return seen is None or not seen.is_empty


def look(using: str, pool: str, after: Passed | None = None) -> Plan | None:
    """Look at *pool* without the lock: what would a pass do?

    The second look of protocol R34, asked after the sleeping state was committed.

    Args:
        using: The pool's database.
        pool: Its name.
        after: The pass just made.  What it could not have, because somebody holds it
            or protects it, is no news and has its own time (R2).

    Returns:
        The plan; ``None`` if a pass must make rows of the pool first.
    """
    session = Session(using)
    loop = session.rows(statements.READ_LOOP, pool=pool)
    if not loop:
        return None
    try:
        snapshot, now = load(session, pool, loop[0][0], is_locked=False)
    except PoolMissingError:
        if may_insert(session, pool):
            return None
        empty = Snapshot(declare.unknown(pool), generation=0)
        return plan(empty, session.now())
    if after is not None:
        snapshot = replace(snapshot, unavailable=after.plan.skipped)
        if after.plan.expired_before is None:
            snapshot = without_expired(snapshot)
    return plan(snapshot, now)


def _lock(session: Session, pool: str) -> int | None:
    """Lock the pool's loop and return this pass's generation; ``None``: taken."""
    rows = session.rows(statements.LOCK_LOOP, pool=pool)
    if not rows:
        if session.rows(statements.READ_LOOP, pool=pool):
            return None
        # The numbers of a row made again start above all that were ever given (R10).
        first = int(session.now().timestamp() * 1000)
        session.write(statements.INSERT_LOOP, pool=pool, generation=first)
        rows = session.rows(statements.LOCK_LOOP, pool=pool)
        if not rows:
            return None
    return int(rows[0][0]) + 1


def _apply(
    session: Session,
    pool: PoolOptions,
    decided: Plan,
    now: datetime,
    timer: PhaseTimer,
) -> phases.Applied:
    applied = phases.Applied()
    phases.drop_doubled(session, decided, now)
    with timer.phase("completions"):
        phases.complete(session, pool, decided, now)
    with timer.phase("cancelations"):
        phases.cancel(session, decided, applied, now)
    with timer.phase("recovery"):
        phases.recover(session, pool, decided, applied, now)
    with timer.phase("starts"):
        phases.start(session, decided, applied, now)
    with timer.phase("cleanup"):
        if decided.expired_before is not None:
            applied.cleaned = clean(session, pool.name, decided.expired_before)
    return applied
