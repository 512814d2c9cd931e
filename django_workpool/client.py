"""The handle that people hold: ``Workpool(name, …)``.

Cheap and made at module level: it imports no model and makes no query until it is used.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from asgiref.sync import sync_to_async
from django.db import router

from django_workpool import options
from django_workpool.choices import FunctionKind, WorkKind
from django_workpool.exceptions import InvalidOptionError, UnsafeWaitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime
    from typing import TypeAlias
    from uuid import UUID

    from django_workpool.engine.counts import Diagnostics, RunningWork
    from django_workpool.engine.explain import Explanation
    from django_workpool.engine.status import Result, WorkStatus
    from django_workpool.models import Work

    WorkLike: TypeAlias = Work | UUID | str

_Value = TypeVar("_Value")
UNSET: Final[Any] = object()
# wait() looks again after so many seconds, growing from the first to the last.
FIRST_LOOK = 0.01
LAST_LOOK = 0.2


def _engine(module: str) -> Any:
    """Import a module of the engine when it is used: it imports the models."""
    from importlib import import_module

    return import_module(f"django_workpool.engine.{module}")


class Workpool:
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

    # --- enqueue ---------------------------------------------------------------------

    def _enqueue(
        self, kind: FunctionKind, fn: object, batch: Iterable[object], **given: Any
    ) -> list[Work]:
        name = given.pop("name", None)
        for option in given:
            raise InvalidOptionError("option", option, "The options are: name.")
        found: list[Work] = _engine("enqueue").enqueue(
            self.alias, self.name, kind, fn, batch, name
        )
        return found

    def enqueue_action(
        self, fn: Callable[..., object], args: object = None, /, **options: Any
    ) -> Work:
        """Enqueue a call of an action, as part of the caller's transaction.

        Args:
            fn: A function registered by ``@action``.
            args: A mapping of its keyword arguments; ``None`` for none.  JSON values,
                and datetime, date, time, timedelta, Decimal and UUID, at any depth.
            **options: ``name`` is what people see instead of the function's name.

        Returns:
            The ``Work``; its ``pk`` is a UUID of version 7.

        Raises:
            NotRegisteredError: Not a registered function of an installed app.
            InvalidArgumentsError: Arguments that do not fit, or cannot be stored
            exactly. ArgumentsTooLargeError: More than 1 MB of them. InvalidOptionError:
            A function of another kind, or an unknown option.

        Source: DESIGN 5; conformance A1 to A17, L; the seed's ``enqueueAction``.
        """
        (work,) = self._enqueue(FunctionKind.ACTION, fn, [args], **options)
        return work

    def enqueue_mutation(
        self, fn: Callable[..., object], args: object = None, /, **options: Any
    ) -> Work:
        """Enqueue a call of a mutation; everything as in ``enqueue_action``."""
        (work,) = self._enqueue(FunctionKind.MUTATION, fn, [args], **options)
        return work

    def enqueue_action_batch(
        self, fn: Callable[..., object], batch: Iterable[object], /, **options: Any
    ) -> list[Work]:
        """Enqueue one call for each element of *batch*; all of them or none.

        Args:
            fn: A function registered by ``@action``.
            batch: Mappings of keyword arguments, or ``None``; may be empty.
            **options: As for one; they apply to every work.

        Returns:
            The works, in input order.

        Raises:
            Exception: As ``enqueue_action``; then nothing is written.

        Source: conformance A6, A7, A9.
        """
        return self._enqueue(FunctionKind.ACTION, fn, batch, **options)

    def enqueue_mutation_batch(
        self, fn: Callable[..., object], batch: Iterable[object], /, **options: Any
    ) -> list[Work]:
        """Enqueue a batch of a mutation; everything as in ``enqueue_action_batch``."""
        return self._enqueue(FunctionKind.MUTATION, fn, batch, **options)

    # --- one work --------------------------------------------------------------------

    def status(self, work: WorkLike) -> WorkStatus:
        """Return where a work is; one query, no lock.

        Raises:
            WorkNotFoundError: Unknown, of another pool, or ended longer ago than the
                pool's ``status_ttl``.

        Source: conformance H1 to H4, H8; the seed's ``status``.
        """
        found: WorkStatus = _engine("status").status(self.alias, self.name, work)
        return found

    def status_batch(self, works: Iterable[WorkLike]) -> list[WorkStatus | None]:
        """Return where works are, in input order, in one query; ``None`` if unknown.

        Source: conformance H5.
        """
        found: list[WorkStatus | None] = _engine("status").statuses(
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
        found: Result = _engine("status").result(self.alias, self.name, work)
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
            WorkNotFoundError: As ``status``.
            UnsafeWaitError: Inside a transaction, or inside a work of the same pool.

        Source: conformance H4, H11 to H13; no counterpart in the seed.
        """
        from django_workpool.db import wake

        self._check_wait()
        for seconds in _looks(timeout, self.name, work):
            found = self.status(work)
            if found.kind == WorkKind.COMPLETED:
                return found
            wake.pause(seconds)
        raise AssertionError  # pragma: no cover - _looks ends by TimeoutError

    def _check_wait(self) -> None:
        from django.db import connections

        from django_workpool.engine.current import running

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
        answer: bool = _engine("cancel").cancel(self.alias, self.name, work)
        return answer

    def explain(self, work: WorkLike) -> Explanation:
        """Say why a work does not run: every predicate with its answer and its numbers.

        Raises:
            WorkNotFoundError: As ``status``.

        Source: conformance N10 to N13; no counterpart in the seed.
        """
        found: Explanation = _engine("explain").explain(self.alias, self.name, work)
        return found

    # --- the pool --------------------------------------------------------------------

    def update(self, **overrides: Any) -> None:
        """Override options while everything runs; code never takes an override back.

        Args:
            **overrides: Options of the constructor, except ``using``.

        Raises:
            InvalidOptionError: An unknown option or a bad value; nothing is written.

        Source: conformance B2, B7, B9, B13; the newest version's ``config.update``.
        """
        _engine("declare").update(self.alias, self.name, overrides)
        _engine("kick").on_commit(self.alias, self.name)

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
        _engine("declare").pause(self.alias, self.name, reason, until)
        _engine("kick").on_commit(self.alias, self.name)

    def resume(self) -> None:
        """Take a pause back; due works start at once."""
        _engine("declare").resume(self.alias, self.name)
        _engine("kick").on_commit(self.alias, self.name)

    def queue_length(self) -> int:
        """Return how many works wait for a start.  Source: conformance H16."""
        found: int = _engine("counts").queue_length(self.alias, self.name)
        return found

    def debug_counts(self) -> dict[str, int]:
        """Return the numbers of rows under the seed's keys.  Source: conformance H17.

        Returns:
            ``pendingStart``, ``inProgressWork``, ``pendingCompletion``,
            ``pendingCancelation``, ``active`` (the second less the next two).
        """
        found: dict[str, int] = _engine("counts").debug_counts(self.alias, self.name)
        return found

    def diagnostics(self) -> Diagnostics:
        """Return limit in force, pause, loop and slots.  Source: conformance H18."""
        found: Diagnostics = _engine("counts").diagnostics(self.alias, self.name)
        return found

    def running(self) -> list[RunningWork]:
        """Return who holds the slots, by lane.  Source: conformance H15."""
        found: list[RunningWork] = _engine("counts").running(self.alias, self.name)
        return found

    # --- asynchronous twins: the same core, in Django's thread for synchronous code ---

    async def aenqueue_action(
        self, fn: Callable[..., object], args: object = None, /, **options: Any
    ) -> Work:
        """Await ``enqueue_action``."""
        return await _in_thread(partial(self.enqueue_action, fn, args, **options))

    async def aenqueue_mutation(
        self, fn: Callable[..., object], args: object = None, /, **options: Any
    ) -> Work:
        """Await ``enqueue_mutation``."""
        return await _in_thread(partial(self.enqueue_mutation, fn, args, **options))

    async def aenqueue_action_batch(
        self, fn: Callable[..., object], batch: Iterable[object], /, **options: Any
    ) -> list[Work]:
        """Await ``enqueue_action_batch``."""
        call = partial(self.enqueue_action_batch, fn, batch, **options)
        return await _in_thread(call)

    async def aenqueue_mutation_batch(
        self, fn: Callable[..., object], batch: Iterable[object], /, **options: Any
    ) -> list[Work]:
        """Await ``enqueue_mutation_batch``."""
        call = partial(self.enqueue_mutation_batch, fn, batch, **options)
        return await _in_thread(call)

    async def astatus(self, work: WorkLike) -> WorkStatus:
        """Await ``status``."""
        return await _in_thread(partial(self.status, work))

    async def astatus_batch(self, works: Iterable[WorkLike]) -> list[WorkStatus | None]:
        """Await ``status_batch``."""
        return await _in_thread(partial(self.status_batch, works))

    async def aresult(self, work: WorkLike) -> Result:
        """Await ``result``."""
        return await _in_thread(partial(self.result, work))

    async def async_wait(
        self,
        work: WorkLike,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - as wait()
    ) -> WorkStatus:
        """Await the end of a work as ``wait`` does, without blocking the event loop."""
        await _in_thread(self._check_wait)
        for seconds in _looks(timeout, self.name, work):
            found = await self.astatus(work)
            if found.kind == WorkKind.COMPLETED:
                return found
            await asyncio.sleep(seconds)
        raise AssertionError  # pragma: no cover - _looks ends by TimeoutError

    async def acancel(self, work: WorkLike) -> bool:
        """Await ``cancel``."""
        return await _in_thread(partial(self.cancel, work))

    async def aexplain(self, work: WorkLike) -> Explanation:
        """Await ``explain``."""
        return await _in_thread(partial(self.explain, work))

    async def aupdate(self, **overrides: Any) -> None:
        """Await ``update``."""
        await _in_thread(partial(self.update, **overrides))

    async def apause(self, reason: str = "", until: datetime | None = None) -> None:
        """Await ``pause``."""
        await _in_thread(partial(self.pause, reason, until))

    async def aresume(self) -> None:
        """Await ``resume``."""
        await _in_thread(self.resume)

    async def aqueue_length(self) -> int:
        """Await ``queue_length``."""
        return await _in_thread(self.queue_length)

    async def adebug_counts(self) -> dict[str, int]:
        """Await ``debug_counts``."""
        return await _in_thread(self.debug_counts)

    async def adiagnostics(self) -> Diagnostics:
        """Await ``diagnostics``."""
        return await _in_thread(self.diagnostics)

    async def arunning(self) -> list[RunningWork]:
        """Await ``running``."""
        return await _in_thread(self.running)


async def _in_thread(call: Callable[[], _Value]) -> _Value:
    return await sync_to_async(call)()


def _looks(
    timeout: timedelta | float | None, pool: str, work: object
) -> Iterator[float]:
    """Yield the seconds between two looks; raise when the time is over."""
    import time

    limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    began = time.monotonic()
    wait = FIRST_LOOK
    while True:
        left = None if limit is None else limit - (time.monotonic() - began)
        if left is not None and left < 0:
            msg = f"Work {work} of pool {pool!r} has not ended within {limit} s."
            raise TimeoutError(msg)
        yield wait if left is None else min(wait, left)
        wait = min(LAST_LOOK, wait * 1.5)
