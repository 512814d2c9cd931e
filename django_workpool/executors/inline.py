"""The executor of tests: works run in the calling thread, when it is told to."""

from __future__ import annotations

import contextvars
import json
import os
from typing import TYPE_CHECKING
from uuid import uuid4

from asgiref.sync import async_to_sync

from django_workpool.db import clock
from django_workpool.engine import announce, complete, workers
from django_workpool.models import Worker
from django_workpool.runner.invoke import Invocation, invoke, invoke_async

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django_workpool.engine.complete import Assignment, Ending, Fetched
    from django_workpool.engine.loop import Passed

ROOM = 100_000


class InlineExecutor:
    """A worker without a process; it holds what it is given until ``run``."""

    def __init__(
        self,
        using: str,
        *,
        threads: int = ROOM,
        coroutines: int = ROOM,
        pools: Sequence[str] = (),
    ) -> None:
        """Register a worker that serves *pools* (all, if none is named)."""
        self.using = using
        self.worker = Worker(
            id=uuid4(),
            runner_id=uuid4(),
            pid=os.getpid(),
            pools=json.dumps(list(pools)),
            threads=threads,
            coroutines=coroutines,
        )
        workers.register(using, self.worker)
        self._seen: set[complete.Key] = set()
        self._clock = clock.CarriedClock(using)

    def hand_out(self, passed: Passed) -> None:
        """Announce what ended without a worker; the rest waits for ``run``."""
        announce.ended(self.using, passed.applied.ended)

    def look(self) -> None:
        """Do nothing: ``run`` looks."""

    def fetch(self) -> list[Assignment]:
        """Return what was assigned and not fetched before, in the order of hand-out."""
        fetched = complete.fetch(self.using, self.worker.pk, tuple(self._seen))
        self._seen = set(fetched.held)
        self._clock.set(fetched.now)
        return [
            assignment
            for assignment in fetched.new
            if not self._ends_canceled(assignment, fetched)
        ]

    def _ends_canceled(self, assignment: Assignment, fetched: Fetched) -> bool:
        is_canceled = fetched.held[assignment.key]
        if is_canceled:
            end = complete.canceled(assignment, self.worker.pk, self._clock.now())
            self.finish(end)
        return is_canceled

    def run(self) -> int:
        """Run everything that is assigned, one after the other; return how many."""
        assignments = self.fetch()
        for assignment in assignments:
            self.finish(self.execute(assignment))
        return len(assignments)

    def execute(self, assignment: Assignment) -> Ending | None:
        """Run one work; its completion is not written yet, but for a mutation."""
        invocation = Invocation(
            using=self.using,
            worker_id=self.worker.pk,
            assignment=assignment,
            now=self._clock.now,
            is_canceled=lambda: False,
        )
        if assignment.is_async:
            # Database work of the function returns to this thread, and its transaction.
            # In a context of its own, which async_to_sync would bring back changed.
            call = async_to_sync(invoke_async)
            return contextvars.copy_context().run(call, invocation)
        return invoke(invocation)

    def finish(self, ending: Ending | None) -> None:
        """Write a completion, unless the function did, and announce it."""
        if ending is None:
            return
        if not ending.is_committed:
            complete.write(self.using, [ending])
        announce.ending(ending, ending.status)

    def close(self) -> None:
        """Take the worker out of service."""
        workers.ended(
            self.using, self.worker.pk, is_dead=False, last_exit="closed", begun=[]
        )
