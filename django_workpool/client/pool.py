"""``Workpool``: the handle of a pool, with its blocking methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connections, router

from django_workpool import options
from django_workpool.choices import WorkKind
from django_workpool.client.engine import engine
from django_workpool.client.enqueueing import Enqueueing
from django_workpool.client.looks import looks
from django_workpool.client.twins import AsyncTwins
from django_workpool.db import wake
from django_workpool.engine.current import running
from django_workpool.exceptions import UnsafeWaitError
from django_workpool.options import UNSET

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta
    from typing import TypeAlias
    from uuid import UUID

    from django_workpool.engine.counts import Diagnostics, RunningWork
    from django_workpool.engine.explain import Explanation
    from django_workpool.engine.status import Result, WorkStatus
    from django_workpool.models import Work

    WorkLike: TypeAlias = Work | UUID | str


class Workpool(Enqueueing, AsyncTwins):
    """A pool, keyed by its name; two handles of one name are the same pool.

    Args:
        name: 1 to 63 bytes in UTF-8.
        max_parallelism: How many works of this pool may run at the same instant, on all
            hosts together; 0 … 10 000, 0 starts nothing.
        status_ttl: How long an ended work can be asked for: a timedelta or seconds,
            ``None`` for ever, 0 not at all.
        log_level: The least level of the pool's events: DEBUG, INFO, REPORT, WARNING,
            ERROR (``WARN`` is accepted).
        executor: Where its works run; ``local`` workers.
        using: The database alias; ``None`` asks the router, with the hint ``pool``.

    Options that are not given inherit the stored row, and 10, one day, WARNING and
    local where neither code nor row says anything.

    Raises:
        InvalidOptionError: A name or a value that cannot be.

    Source: DESIGN 5; conformance B1 to B9; the seed's ``new Workpool``.
    """

    def __init__(
        self,
        name: str,
        *,
        max_parallelism: int = UNSET,
        status_ttl: timedelta | float | None = UNSET,
        log_level: str = UNSET,
        executor: str = UNSET,
        using: str | None = None,
    ) -> None:
        self.name = options.check_name(name)
        self.using = using
        given = {
            "max_parallelism": max_parallelism,
            "status_ttl": status_ttl,
            "log_level": log_level,
            "executor": executor,
        }
        checked = {
            key: options.check(key, value)
            for key, value in given.items()
            if value is not UNSET
        }
        options.declare(self.name, checked, using)

    def __repr__(self) -> str:
        """Return the call that makes this handle, without its options."""
        return f"Workpool({self.name!r})"

    @property
    def alias(self) -> str:
        """The alias of the pool's database."""
        if self.using is not None:
            return self.using
        named = options.declared_alias(self.name)
        if named is not None:
            return named
        from django_workpool.models import Work

        return router.db_for_write(Work, pool=self.name)

    # --- one work --------------------------------------------------------------------

    def status(self, work: WorkLike) -> WorkStatus:
        """Return where a work is; one query, no lock.

        Raises:
            WorkNotFoundError: Unknown, of another pool, or ended longer ago than the
                pool's ``status_ttl``.

        Source: conformance H1 to H4, H8; the seed's ``status``.
        """
        found: WorkStatus = engine("status").status(self.alias, self.name, work)
        return found

    def status_batch(self, works: Iterable[WorkLike]) -> list[WorkStatus | None]:
        """Return where works are, in input order, in one query; ``None`` if unknown.

        Source: conformance H5.
        """
        found: list[WorkStatus | None] = engine("status").statuses(
            self.alias, self.name, works
        )
        return found

    def result(self, work: WorkLike) -> Result:
        """Return how a work ended.

        Raises:
            WorkNotFoundError: As ``status``.
            WorkNotFinishedError: It has not ended.

        Source: conformance H9, H10, D17.
        """
        found: Result = engine("status").result(self.alias, self.name, work)
        return found

    def wait(
        self, work: WorkLike, timeout: timedelta | float | None = None
    ) -> WorkStatus:
        """Block until a work has ended.

        Meant for scripts and tests.  It polls committed rows and holds no lock, no slot
        and no transaction meanwhile.

        Args:
            work: The row that enqueue returned, its id, or the id as text.
            timeout: A timedelta or seconds; ``None`` waits for ever.

        Returns:
            The last status, of kind ``completed``.

        Raises:
            TimeoutError: Not ended in time; the work itself goes on.
            InvalidOptionError: A timeout that is no time.
            WorkNotFoundError: As ``status``.
            UnsafeWaitError: Inside a transaction, or inside a work of the same pool.

        Source: conformance H4, H11 to H13; no counterpart in the seed.
        """
        self._check_wait()
        for seconds in looks(timeout, self.name, work):
            found = self.status(work)
            if found.kind == WorkKind.COMPLETED:
                return found
            wake.pause(seconds)
        raise AssertionError  # pragma: no cover - looks() ends by TimeoutError

    def _check_wait(self) -> None:
        """Refuse to wait where the end could never be seen, or never come.

        Raises:
            UnsafeWaitError: Inside a transaction, or inside a work of the same pool.
        """
        if connections[self.alias].in_atomic_block:
            raise UnsafeWaitError(
                self.name, "inside a transaction its end would never be seen"
            )
        current = running.get(None)
        if current is not None and current.pool == self.name:
            raise UnsafeWaitError(
                self.name, "a work of this pool holds the slot that the other may need"
            )

    def cancel(self, work: WorkLike) -> bool:
        """Ask that a work does not run; part of the caller's transaction.

        A pending work never runs and ends canceled.  One in progress goes on; it sees
        ``current_work().cancel_requested``, and ends canceled unless it succeeds.

        Returns:
            True if it can still be canceled, False if it has ended.

        Raises:
            WorkNotFoundError: As ``status``; nothing is stored.

        Source: conformance F1 to F10; the seed's ``cancel``.
        """
        answer: bool = engine("cancel").cancel(self.alias, self.name, work)
        return answer

    def explain(self, work: WorkLike) -> Explanation:
        """Say why a work does not run: every predicate with its answer and its numbers.

        Raises:
            WorkNotFoundError: As ``status``.

        Source: conformance N10 to N13; no counterpart in the seed.
        """
        found: Explanation = engine("explain").explain(self.alias, self.name, work)
        return found

    # --- the pool --------------------------------------------------------------------

    def update(self, **overrides: Any) -> None:
        """Override options while everything runs; code never takes an override back.

        Args:
            **overrides: Options of the constructor, except ``using``; ``DECLARED``
                takes an override back, so that what code declares is in force again.

        Raises:
            InvalidOptionError: An unknown option or a bad value; nothing is written.

        Source: conformance B2, B7, B9, B13; the newest version's ``config.update``.
        """
        engine("declare").update(self.alias, self.name, overrides)
        engine("kick").on_commit(self.alias, self.name)

    def pause(self, reason: str = "", until: datetime | None = None) -> None:
        """Start nothing more, from the next pass on; what runs goes on.

        Args:
            reason: For people; 500 characters at most.
            until: An aware time at which the pause ends by itself.

        Raises:
            InvalidOptionError: A naive or impossible time, or a reason that is no text.

        Source: conformance B10, B12.
        """
        options.check_pause(reason, until)
        engine("declare").pause(self.alias, self.name, reason, until)
        engine("kick").on_commit(self.alias, self.name)

    def resume(self) -> None:
        """Take a pause back; due works start at once."""
        engine("declare").resume(self.alias, self.name)
        engine("kick").on_commit(self.alias, self.name)

    def queue_length(self) -> int:
        """Return how many works wait for a start.  Source: conformance H16."""
        found: int = engine("counts").queue_length(self.alias, self.name)
        return found

    def debug_counts(self) -> dict[str, int]:
        """Return the numbers of rows under the seed's keys.  Source: conformance H17.

        Returns:
            ``pendingStart``, ``inProgressWork``, ``pendingCompletion``,
            ``pendingCancelation``, ``active`` (the second less the next two).
        """
        found: dict[str, int] = engine("counts").debug_counts(self.alias, self.name)
        return found

    def diagnostics(self) -> Diagnostics:
        """Return limit in force, pause, loop and slots.  Source: conformance H18."""
        found: Diagnostics = engine("counts").diagnostics(self.alias, self.name)
        return found

    def running(self) -> list[RunningWork]:
        """Return who holds the slots, by lane.  Source: conformance H15."""
        found: list[RunningWork] = engine("counts").running(self.alias, self.name)
        return found
