"""Where functions run: a thread for each sync one, one event loop for async ones."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections

from django_workpool.failpoints import failpoint
from django_workpool.runner.connections import tidy, watch
from django_workpool.runner.intake import Held, Stage
from django_workpool.runner.invoke import Invocation, invoke, invoke_async

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from django_workpool.engine.complete import Ending
    from django_workpool.runner.marks import Marks

logger = logging.getLogger("django_workpool.runner")


class Lanes:
    """The threads and the event loop of one worker."""

    def __init__(
        self,
        *,
        using: str,
        worker_id: UUID,
        threads: int,
        marks: Marks,
        now: Callable[[], datetime],
        end: Callable[[Held, Ending | None], None],
    ) -> None:
        """Report each hand-out that has run to *end*, in its lane."""
        self._using = using
        self._worker_id = worker_id
        self._limit = threads
        self._marks = marks
        self._now = now
        self._end = end
        self._queue: SimpleQueue[Held | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        # Works that wait or run here; a thread for each, up to the limit.
        self._load = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    def submit(self, held: Held) -> None:
        """Let a hand-out begin as soon as a lane is free for it."""
        if held.assignment.is_async:
            self._start_loop().call_soon_threadsafe(self._spawn, held)
            return
        with self._lock:
            self._load += 1
            # More threads than works would only cost sessions.
            if len(self._threads) < min(self._load, self._limit):
                self._add_thread()
        self._queue.put(held)

    def _add_thread(self) -> None:
        thread = threading.Thread(
            target=self._work, name=f"lane-{len(self._threads)}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while True:
            failpoint("lane.before_next")
            held = self._queue.get()
            if held is None:
                break
            # Unless it was given back or canceled meanwhile.
            if held.claim(Stage.BEGUN):
                self._run(held)
            with self._lock:
                self._load -= 1
        connections.close_all()

    def _invocation(self, held: Held) -> Invocation:
        return Invocation(
            using=self._using,
            worker_id=self._worker_id,
            assignment=held.assignment,
            now=self._now,
            is_canceled=lambda: held.is_canceled,
            mark=lambda: self._marks.set(held.assignment.key),
        )

    def _run(self, held: Held) -> None:
        """Run one hand-out: whatever happens, it ends, or its slot would be lost."""
        invocation = self._invocation(held)
        try:
            watch()
            tidy()
            ending = invoke(invocation)
        except BaseException as error:  # noqa: BLE001 - the last guard of the lane
            ending = invocation.failed(error, self._now())
        with suppress(Exception):
            tidy()
        self._end(held, ending)

    def _spawn(self, held: Held) -> None:
        task = asyncio.ensure_future(self._run_async(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_async(self, held: Held) -> None:
        if not held.claim(Stage.BEGUN):
            return
        invocation = self._invocation(held)
        try:
            # The database work of each has a thread, and thus sessions, of its own.
            async with ThreadSensitiveContext() as context:
                ending = await invoke_async(invocation)
                if context in SyncToAsync.context_to_thread_executor:
                    await sync_to_async(connections.close_all)()
        except BaseException as error:  # noqa: BLE001 - the last guard of the lane
            ending = invocation.failed(error, self._now())
        self._end(held, ending)

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._run_loop,
                args=(self._loop,),
                name="event-loop",
                daemon=True,
            ).start()
        return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the event loop until ``stop``, though a task may stop or break it."""
        asyncio.set_event_loop(loop)
        while not self._is_stopping:
            try:
                loop.run_forever()
            except BaseException:
                logger.exception("A task broke the event loop; it goes on")

    def stop(self) -> None:
        """End idle threads and the loop; what runs has ended before."""
        self._is_stopping = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=1)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
