"""Wake a sleeping main loop, after the commit and never inside it (protocol R33).

A kick reads the loop's row and writes nothing.  It is deduplicated when its hook runs,
not when it is registered: a rolled-back savepoint drops a hook.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import Error, connections, transaction

from django_workpool import logs, options
from django_workpool.choices import LogLevel, LoopState
from django_workpool.db import executor_statements, retry, wake
from django_workpool.db.dialect import to_duration, to_time
from django_workpool.db.session import Session
from django_workpool.engine import announce
from django_workpool.engine.declare import declare, level_in_force
from django_workpool.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from django_workpool.models import Work

_ATTRIBUTE = "_workpool_hooks"
# What was last declared, by alias and pool: a handle may add options later.
_synced: dict[tuple[str, str], dict[str, Any]] = {}


@dataclass(frozen=True)
class _Found:
    """What the loop's row said after the commit."""

    level: str
    is_awake: bool
    is_saturated: bool


@dataclass
class _Hooks:
    """The kicks of one transaction; shared by all hooks that it registered."""

    found: dict[str, _Found] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    has_run: bool = False


def _hooks(using: str) -> _Hooks:
    connection = connections[using]
    hooks = getattr(connection, _ATTRIBUTE, None)
    if hooks is None or hooks.has_run:
        hooks = _Hooks()
        setattr(connection, _ATTRIBUTE, hooks)
    return hooks


def on_commit(using: str, pool: str, works: Sequence[Work] = ()) -> None:
    """Kick *pool* once the transaction has committed, and tell of its new works.

    An enqueue (with *works*) wakes nobody while the loop says that it is saturated;
    anything else is news to a saturated loop too.
    """
    hooks = _hooks(using)

    # compat: a partial once Django 5.2 is gone, which asks a failing hook for its name.
    def kick_after_commit() -> None:
        _after_commit(hooks, using, pool, works)

    transaction.on_commit(kick_after_commit, using=using, robust=True)


def _after_commit(hooks: _Hooks, using: str, pool: str, works: Sequence[Work]) -> None:
    hooks.has_run = True
    if pool not in hooks.found:
        hooks.found[pool] = _read(using, pool)
    found = hooks.found[pool]
    # To a full pool a new work is no news; what else may happen is.
    is_news = not (works and found.is_saturated)
    if is_news and not found.is_awake and pool not in hooks.sent:
        hooks.sent.add(pool)
        failpoint("kick.before_send")
        wake.notify(using, pool)
    if works:
        announce.enqueued(works, found.level)


def sync(using: str, pool: str) -> None:
    """Declare *pool* if code declares it otherwise than at the last time.

    Never inside the user's transaction: rivals would wait for its end.
    """
    wanted = options.declared_options(pool)
    if _synced.get((using, pool)) == wanted:
        return
    try:
        declare(using, pool)
    except Error as error:
        if not retry.is_conflict(error):
            raise
        logs.loop.info("The pool %r is declared the next time: %s", pool, error)
    else:
        _synced[using, pool] = wanted


def _read(using: str, pool: str) -> _Found:
    """Read level and loop, in one query; declare the pool first if needed."""
    sync(using, pool)
    rows = Session(using).rows(executor_statements.KICK, pool=pool)
    if not rows:
        # Deleted since, or still uncommitted by somebody else.
        _synced.pop((using, pool), None)
        sync(using, pool)
        rows = Session(using).rows(executor_statements.KICK, pool=pool)
    if not rows:
        return _Found(LogLevel.WARNING.value, is_awake=False, is_saturated=False)
    level, overrides, state, is_saturated = rows[0]
    return _Found(
        level=level_in_force(level, overrides),
        is_awake=state == LoopState.RUNNING,
        is_saturated=bool(is_saturated),
    )


def kick(using: str, pool: str) -> None:
    """Wake *pool* now, unless its loop is awake; for whoever has just committed."""
    rows = Session(using).rows(executor_statements.KICK, pool=pool)
    if rows and rows[0][2] == LoopState.RUNNING:
        return
    failpoint("kick.before_send")
    wake.notify(using, pool)


@dataclass(frozen=True)
class Waiting:
    """A pool that the backstop found, with its reasons to be looked at."""

    pool: str
    has_rows: bool
    state: str | None
    run_at: datetime | None
    has_expired: bool
    has_running: bool

    def is_overdue(self, now: datetime) -> bool:
        """Say whether somebody should look at this pool."""
        is_due = self.run_at is not None and self.run_at <= now
        return (
            self.has_rows
            or is_due
            or self.has_expired
            or self.state == LoopState.RUNNING
        )


def overview(using: str) -> list[Waiting]:
    """Return every pool with its reasons to be looked at, in one query (R35)."""
    session = Session(using)
    now = session.now()
    return [
        Waiting(
            pool=pool,
            has_rows=bool(waits),
            state=state,
            run_at=to_time(run_at, using),
            has_expired=_has_expired(using, ttl, overrides, oldest, now),
            has_running=bool(runs),
        )
        for pool, waits, runs, state, run_at, ttl, overrides, oldest in session.rows(
            executor_statements.BACKSTOP
        )
    ]


def _has_expired(
    using: str,
    ttl: timedelta | int | None,
    overrides: str | None,
    oldest: datetime | str | None,
    now: datetime,
) -> bool:
    values = {"status_ttl": to_duration(ttl), **options.overrides_of(overrides or "")}
    ended_at, limit = to_time(oldest, using), values["status_ttl"]
    return ended_at is not None and limit is not None and ended_at <= now - limit
