"""The workers of a runner: started, listened to, replaced, their ends written down."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from django.db import Error

from django_workpool.db import retry
from django_workpool.engine import workers
from django_workpool.runner.children import Child
from django_workpool.runner.config import Config
from django_workpool.runner.state_dir import make_state_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_workpool.runner.channel import Channel
    from django_workpool.runner.config import Options

logger = logging.getLogger("django_workpool.runner")

# Word comes from the own loop; without one a worker must look for itself.
POLL_WITH_LOOP = 2.0
POLL_WITHOUT_LOOP = 0.2
FIRST_RESTART_WAIT = 0.2
LONGEST_RESTART_WAIT = 30.0


class Crew:
    """The worker processes; everything here runs in the runner's main thread."""

    def __init__(
        self,
        options: Options,
        runner_id: UUID,
        *,
        hear: Callable[[dict[str, Any]], None],
        changed: Callable[[], None],
    ) -> None:
        """Pass messages on to *hear*; tell *changed* of workers that came or went."""
        self._options = options
        self._runner_id = runner_id
        self._hear = hear
        self._changed = changed
        self._children: dict[UUID, Child] = {}
        # Ended, and not yet written down.
        self._ended: list[Child] = []
        self._start_at = 0.0
        self._failures = 0
        self.is_stopping = False

    def is_gone(self) -> bool:
        """Say whether all have ended and that is written down."""
        return not self._children and not self._ended

    def is_complete(self) -> bool:
        """Say whether as many as wanted are ready."""
        ready = sum(child.is_ready for child in self._children.values())
        return ready >= self._options.processes

    def has_living(self) -> bool:
        """Say whether one is still there."""
        return bool(self._children)

    def channels(self) -> Mapping[UUID, Channel]:
        """Return the ways to those that are ready; from any thread."""
        return {
            worker_id: child.channel
            for worker_id, child in tuple(self._children.items())
            if child.is_ready
        }

    def descriptors(self) -> list[int]:
        """Return what becomes readable when one of them speaks or ends."""
        return [fd for child in self._children.values() for fd in child.descriptors()]

    def patience(self, longest: float) -> float:
        """Return how many seconds may pass before the next ``turn``."""
        if self._ended:
            return FIRST_RESTART_WAIT
        is_short = len(self._children) < self._options.processes
        if is_short and not self.is_stopping:
            return min(longest, max(0.0, self._start_at - time.monotonic()))
        return longest

    def turn(self) -> None:
        """Listen to all, write down who ended, start who is missing."""
        for child in tuple(self._children.values()):
            self._listen(child)
            if child.has_ended():
                # What it said before its end counts: that is committed.
                self._listen(child)
                self._take_off(child)
        self._write_ends()
        if not self.is_stopping and time.monotonic() >= self._start_at:
            self._start_missing()

    def stop(self) -> None:
        """Ask all to end when their last work has; start no more."""
        self.is_stopping = True
        for child in self._children.values():
            child.stop()

    def kill(self, reason: str) -> None:
        """End all now; *reason* is recorded with what they were doing."""
        self.is_stopping = True
        for child in self._children.values():
            child.kill(reason)

    def _listen(self, child: Child) -> None:
        for message in child.channel.receive():
            if message["kind"] == "ready":
                child.is_ready = True
                self._failures = 0
                self._changed()
            self._hear(message)
        child.channel.flush()

    def _take_off(self, child: Child) -> None:
        del self._children[child.id]
        self._ended.append(child)
        if self.is_stopping:
            return
        logger.error(
            "Worker %s (pid %s) ended: %s",
            child.id,
            child.process.pid,
            child.last_exit(),
        )
        if child.is_ready:
            self._start_at = time.monotonic()
        else:
            self._delay_start()

    def _write_ends(self) -> None:
        """Write the end of each, once, as soon as the database takes it (R29)."""
        while self._ended:
            child = self._ended[0]
            try:
                workers.ended(
                    self._options.using,
                    child.id,
                    is_dead=child.is_dead,
                    last_exit=child.last_exit(),
                    begun=child.begun(),
                )
            except Error as error:
                logger.warning("A death cannot be written yet: %s", error)
                retry.forget_broken(self._options.using)
                return
            self._ended.pop(0).close()
            self._changed()

    def _start_missing(self) -> None:
        while len(self._children) < self._options.processes:
            worker_id = uuid4()
            try:
                # Cleaners of temporary directories may have taken it away.
                make_state_dir(self._options.state_dir)
                child = Child(worker_id, self._config(worker_id))
            except OSError as error:
                logger.error("A worker cannot be started: %s", error)  # noqa: TRY400
                self._delay_start()
                return
            self._children[worker_id] = child

    def _delay_start(self) -> None:
        """Wait longer after each that never became ready: no tight loop of starts."""
        seconds = min(LONGEST_RESTART_WAIT, FIRST_RESTART_WAIT * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._start_at = time.monotonic() + seconds

    def _config(self, worker_id: UUID) -> Config:
        options = self._options
        return Config(
            worker_id=str(worker_id),
            runner_id=str(self._runner_id),
            runner_pid=os.getpid(),
            using=options.using,
            pools=list(options.pools),
            threads=options.threads,
            coroutines=options.coroutines,
            poll=POLL_WITH_LOOP if options.loop else POLL_WITHOUT_LOOP,
            marks_path=str(Path(options.state_dir) / f"{worker_id}.marks"),
            verbosity=options.verbosity,
        )
