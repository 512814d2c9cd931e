"""The asynchronous twins: the same core, in Django's thread for synchronous code."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async

from django_workpool.choices import WorkKind
from django_workpool.client.looks import looks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime, timedelta

    from django_workpool.client.pool import WorkLike
    from django_workpool.engine.counts import Diagnostics, RunningWork
    from django_workpool.engine.explain import Explanation
    from django_workpool.engine.status import Result, WorkStatus
    from django_workpool.models import Work

_Value = TypeVar("_Value")


class AsyncTwins:
    """Each blocking method of ``Workpool``, for an event loop that it does not block.

    Arguments, results and errors are those of the method without the ``a``.
    """

    if TYPE_CHECKING:
        name: str
        enqueue_action: Callable[..., Work]
        enqueue_mutation: Callable[..., Work]
        enqueue_action_batch: Callable[..., list[Work]]
        enqueue_mutation_batch: Callable[..., list[Work]]
        status: Callable[[WorkLike], WorkStatus]
        status_batch: Callable[[Iterable[WorkLike]], list[WorkStatus | None]]
        result: Callable[[WorkLike], Result]
        cancel: Callable[[WorkLike], bool]
        explain: Callable[[WorkLike], Explanation]
        update: Callable[..., None]
        pause: Callable[..., None]
        resume: Callable[[], None]
        queue_length: Callable[[], int]
        debug_counts: Callable[[], dict[str, int]]
        diagnostics: Callable[[], Diagnostics]
        running: Callable[[], list[RunningWork]]
        _check_wait: Callable[[], None]

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
        for seconds in looks(timeout, self.name, work):
            found = await self.astatus(work)
            if found.kind == WorkKind.COMPLETED:
                return found
            await asyncio.sleep(seconds)
        raise AssertionError  # pragma: no cover - looks() ends by TimeoutError

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
