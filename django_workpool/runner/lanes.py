"""Where functions run: a thread for each sync one, one event loop for async ones."""

from __future__ import annotations

import asyncio
import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

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
                watch()
                tidy()
                ending = invoke(self._invocation(held))
                tidy()
                self._end(held, ending)
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

    def _spawn(self, held: Held) -> None:
        task = asyncio.ensure_future(self._run(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, held: Held) -> None:
        if held.claim(Stage.BEGUN):
            self._end(held, await invoke_async(self._invocation(held)))

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._loop.run_forever, name="event-loop", daemon=True
            ).start()
        return self._loop

    def stop(self) -> None:
        """End idle threads and the loop; what runs has ended before."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=1)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
