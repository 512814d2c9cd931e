"""Help for tests of works: one pass, a drain, a clock.

Public.  Works run inline, in the calling thread and transaction, so that a plain
``TestCase`` can enqueue, drain and look.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django.db import DEFAULT_DB_ALIAS

from django_workpool import options
from django_workpool.db import clock as database_clock
from django_workpool.engine import kick, loop
from django_workpool.executors.inline import InlineExecutor
from django_workpool.models import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_workpool.engine.loop import Passed

__all__ = ["Clock", "clock", "drain", "inline_executor", "run_pass"]

_executors: dict[str, InlineExecutor] = {}


def inline_executor(using: str = DEFAULT_DB_ALIAS) -> InlineExecutor:
    """Return the inline worker of *using*; made, and made again, when it is missing."""
    executor = _executors.get(using)
    if executor is None or not _is_registered(executor):
        executor = _executors[using] = InlineExecutor(using)
    return executor


def _is_registered(executor: InlineExecutor) -> bool:
    rows = Worker.objects.using(executor.using)
    return rows.filter(pk=executor.worker.pk, ended_at=None).exists()


def run_pass(
    pool: str, *, using: str | None = None, with_worker: bool = True
) -> Passed | None:
    """Run exactly one pass of *pool*.

    Args:
        pool: Its name.
        using: Its database; ``None`` is what code declared, or the default alias.
        with_worker: Whether an inline worker with room for everything is there to be
            given works; it begins none of them before ``drain``.

    Returns:
        What the pass did; ``None`` if another process held the pool.
    """
    alias = _alias(pool, using)
    if not with_worker:
        return loop.run_pass(alias, pool)
    executor = inline_executor(alias)
    passed = loop.run_pass(alias, pool)
    if passed is not None:
        executor.hand_out(passed)
    return passed


def drain(pool: str | None = None, *, using: str | None = None) -> int:
    """Pass and run until nothing is due, in one order; return how many works ran.

    Args:
        pool: Only this pool; ``None`` takes every pool of the database.
        using: The database; ``None`` is what code declared for *pool*, or the default.
    """
    alias = _alias(pool, using)
    executor = inline_executor(alias)
    ran = 0
    while True:
        found = {waiting.pool for waiting in kick.overview(alias)}
        names = sorted(found if pool is None else {pool})
        passes = [run_pass(name, using=alias) for name in names]
        count = executor.run()
        ran += count
        if not count and not any(p is not None and p.is_running for p in passes):
            return ran


def _alias(pool: str | None, using: str | None) -> str:
    declared = None if pool is None else options.declared_alias(pool)
    return using or declared or DEFAULT_DB_ALIAS


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime) -> None:
        """Stand at *start*."""
        self.time = start

    def __call__(self) -> datetime:
        """Return its time."""
        return self.time

    def move(self, by: timedelta | float) -> datetime:
        """Go forward by a timedelta or seconds; return the new time."""
        self.time += by if isinstance(by, timedelta) else timedelta(seconds=by)
        return self.time


@contextmanager
def clock(start: datetime | None = None) -> Iterator[Clock]:
    """Replace the database's clock, for everything that this process does.

    Args:
        start: An aware time; ``None`` starts now.
    """
    made = Clock(start or datetime.now(tz=UTC))
    with database_clock.inject(made):
        yield made
