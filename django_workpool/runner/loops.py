"""The thread that makes passes: which pool, when, and when it may sleep.

Kicks name a pool, the backstop finds what no kick named, and a scheduled pool has its
own time.  A pool sleeps only after a second look found nothing (protocol R34).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from django.db import Error, connections

from django_workpool.choices import LoopState
from django_workpool.db import clock, retry, wake
from django_workpool.engine import kick, workers
from django_workpool.engine.loop import look, run_pass
from django_workpool.failpoints import failpoint
from django_workpool.runner.waiting import Bell, rest, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from django_workpool.engine.loop import Passed
    from django_workpool.executors.base import Executor

logger = logging.getLogger("django_workpool.loop")

TIDY_INTERVAL = 60.0
LAST_PASSES = 5.0
ERROR_WAIT = 0.05
CONFLICT_WAIT = 0.2
LONGEST_ERROR_WAIT = 2.0


class Loops:
    """All main loops that this runner serves, in one thread."""

    def __init__(
        self,
        *,
        using: str,
        runner_id: UUID,
        pools: Iterable[str],
        executor: Executor,
        is_eager: bool,
        quiet: Callable[[], None],
    ) -> None:
        """Serve *pools* (all, if none is named); call *quiet* when nothing is left.

        An eager one asks at once, and not only at the next backstop, whether it is so.
        """
        self.using = using
        self._runner_id = runner_id
        self._only = frozenset(pools)
        self._executor = executor
        self._quiet = quiet
        self._is_eager = is_eager
        self._bell = Bell()
        self._kicked: set[str] = set()
        self._lock = threading.Lock()
        # Pools that must be passed, in turn: none waits for another's whole backlog.
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._scheduled: dict[str, float] = {}
        self._backstop_at = 0.0
        self._tidy_at = 0.0
        self._errors = 0
        self._warned: set[str] = set()
        self._is_stopping = False
        self._is_calm = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loops", daemon=True)
        self._listener: wake.Polling | None = None

    @property
    def wake_up(self) -> str:
        """How the database wakes this thread, for people."""
        return wake.name_of(self.using)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def kick(self, pools: Iterable[str]) -> None:
        """Wake the loops of *pools*; from any thread."""
        with self._lock:
            self._kicked.update(pools)
        self._bell.ring()

    def look(self) -> None:
        """Let the backstop look at all pools now; from any thread."""
        self._backstop_at = 0.0
        self._bell.ring()

    def finish(self) -> None:
        """Wait, some seconds at most, until nothing is left to do without workers."""
        self._is_eager = True
        self._is_calm.clear()
        self.look()
        self._is_calm.wait(LAST_PASSES)

    def stop(self) -> None:
        """End the thread after what it does now."""
        self._is_stopping = True
        self._bell.ring()
        self._thread.join(LAST_PASSES)

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._turn()
        finally:
            if self._listener is not None:
                self._listener.close()
            connections.close_all()

    def _turn(self) -> None:
        try:
            if self._listener is None:
                self._listener = wake.listener(self.using)
            self._gather(self._listener)
            if self._ready:
                self._pass_next()
                if self._is_eager and not self._ready:
                    self._backstop_at = 0.0
            self._errors = 0
        except Exception as error:
            # The loop never dies, least of all of its database: it waits and goes on.
            # A pass is idempotent: after an error on COMMIT it is made again (R7), and
            # workers look for themselves for what the lost one may have given out.
            self._errors += 1
            if not retry.is_transient(error):
                logger.exception("A pass failed")
            retry.forget_broken(self.using)
            self._executor.look()
            self._backstop_at = 0.0
            self._bell_wait(
                min(LONGEST_ERROR_WAIT, ERROR_WAIT * 2 ** min(self._errors, 8))
            )

    def _pass_next(self) -> None:
        """Pass the next pool; what stands in its way must not stand in others'."""
        pool, _ = self._ready.popitem(last=False)
        try:
            self._pass(pool)
        except Error as error:
            if not retry.is_conflict(error):
                raise
            self._executor.look()
            self._scheduled[pool] = time.monotonic() + CONFLICT_WAIT

    def _gather(self, listener: wake.Polling) -> None:
        """Wait for a reason to pass, unless there is one, and collect the reasons."""
        descriptor = listener.fileno()
        extra = [] if descriptor is None else [descriptor]
        seconds = 0.0 if self._ready else self._patience(listener)
        ready = wait([self._bell.fileno(), *extra], seconds)
        self._bell.answer()
        with self._lock:
            self._enlist(self._kicked)
            self._kicked = set()
        polls = descriptor is None or descriptor in ready
        changed = listener.changed() if polls else ()
        now = time.monotonic()
        self._enlist(changed or ())
        if changed is None or now >= self._backstop_at:
            self._backstop(now)
        for pool in [pool for pool, at in self._scheduled.items() if at <= now]:
            del self._scheduled[pool]
            self._enlist([pool])

    def _patience(self, listener: wake.Polling) -> float:
        now = time.monotonic()
        moments = [self._backstop_at, *self._scheduled.values()]
        return max(0.0, min(listener.interval, min(moments) - now))

    def _bell_wait(self, seconds: float) -> None:
        wait([self._bell.fileno()], seconds)

    def _enlist(self, pools: Iterable[str]) -> None:
        for pool in pools:
            if not self._only or pool in self._only:
                self._ready[pool] = None

    def _backstop(self, now: float) -> None:
        """Find what no kick named: one query for all pools (protocol R35)."""
        self._backstop_at = now + wake.BACKSTOP
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_INTERVAL
            workers.forget_ended(self.using)
        moment = clock.now(self.using)
        has_running = False
        for found in kick.overview(self.using):
            if self._only and found.pool not in self._only:
                continue
            has_running = has_running or found.has_running
            if found.pool in self._ready or not found.is_overdue(moment):
                continue
            # A backlog behind a full or paused pool is no reason to pass.
            is_awake = found.state == LoopState.RUNNING
            if is_awake or self._would_change(found.pool):
                self._enlist([found.pool])
        if not self._ready:
            self._is_calm.set()
            if not has_running:
                self._quiet()

    def _pass(self, pool: str) -> None:
        passed = run_pass(self.using, pool, self._runner_id)
        if passed is None:
            # Another runner passes just now; if it dies, the backstop finds the pool.
            return
        self._executor.hand_out(passed)
        if passed.is_running:
            self._enlist([pool])
            self._leave_the_lock(passed)
            return
        failpoint("idle.before_sleep")
        if self._would_change(pool, passed):
            self._enlist([pool])
        elif passed.next.run_at is not None:
            left = (passed.next.run_at - clock.now(self.using)).total_seconds()
            self._scheduled[pool] = time.monotonic() + max(0.0, left)

    def _would_change(self, pool: str, after: Passed | None = None) -> bool:
        """Look without the lock: is there a reason to pass?"""
        seen = look(self.using, pool, after)
        if seen is None:
            return True
        self._warn_of_unknown(pool, seen.unknown)
        return not seen.is_empty

    def _warn_of_unknown(self, pool: str, unknown: frozenset[str]) -> None:
        """Say once of each function that its works wait, and what to do."""
        for handle in unknown - self._warned:
            self._warned.add(handle)
            logger.warning(
                "Works of %s wait in pool %r, for no worker knows this function. Import"
                " it from a module workpools.py of an installed app, and restart the"
                " runner.",
                handle,
                pool,
            )

    def _leave_the_lock(self, passed: Passed) -> None:
        """vendor: busy handlers of SQLite are unfair, so others get as long (R39)."""
        if connections[self.using].vendor == "sqlite":
            rest(passed.milliseconds / 1000)
