"""The runner: starts workers, watches them, writes the facts of their deaths, stops.

It runs no user code.  Its main thread is here; passes are made by ``loops``.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from django.db import Error, connections

from django_workpool.db import retry
from django_workpool.engine import kick, workers
from django_workpool.executors.local import LocalExecutor
from django_workpool.runner.children import Child
from django_workpool.runner.config import Config
from django_workpool.runner.loops import Loops
from django_workpool.runner.waiting import Bell, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    from django_workpool.runner.channel import Channel

logger = logging.getLogger("django_workpool.runner")

TURN = 0.5
# Word comes from the own loop; without one a worker must look for itself.
POLL_WITH_LOOP = 2.0
POLL_WITHOUT_LOOP = 0.2
FIRST_RESTART_WAIT = 0.2
LONGEST_RESTART_WAIT = 30.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line decided."""

    using: str
    pools: tuple[str, ...]
    processes: int
    threads: int
    coroutines: int
    shutdown_timeout: float
    drain: bool
    loop: bool
    state_dir: str
    verbosity: int


class Supervisor:
    """One ``run_workpool`` process."""

    def __init__(self, options: Options, *, ready: Callable[[str], None]) -> None:
        """Tell *ready*, once, that passes are made and all workers serve."""
        self.options = options
        self.id = uuid4()
        self._tell_ready = ready
        self._is_ready = False
        self._bell = Bell()
        self._children: dict[UUID, Child] = {}
        self._gone: list[Child] = []
        self._signals = 0
        self._is_quiet = False
        self._stop_at: float | None = None
        self._start_at = 0.0
        self._failures = 0
        self._exit_code = 0
        self._loops: Loops | None = None
        if options.loop:
            self._loops = Loops(
                using=options.using,
                runner_id=self.id,
                pools=options.pools,
                executor=LocalExecutor(self._channels),
                is_eager=options.drain,
                quiet=self._hear_quiet,
            )

    def run(self) -> int:
        """Run until a signal, or until everything is drained; return the exit code."""
        Path(self.options.state_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        before = {
            number: signal.signal(number, self._hear_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        wakeup = signal.set_wakeup_fd(self._bell.writer(), warn_on_full_buffer=False)
        try:
            if self._loops is not None:
                self._loops.start()
            while not self._is_finished():
                self._turn()
            self._end()
        finally:
            for child in self._children.values():
                child.kill()
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._exit_code

    # --- heard from elsewhere ------------------------------------------------------

    def _hear_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _hear_quiet(self) -> None:
        """Nothing is due any more; called by the loops' thread."""
        self._is_quiet = True
        if self.options.drain:
            self._bell.ring()

    def _channels(self) -> Mapping[UUID, Channel]:
        return {
            worker_id: child.channel
            for worker_id, child in tuple(self._children.items())
            if child.is_ready
        }

    # --- the main thread -----------------------------------------------------------

    def _is_finished(self) -> bool:
        return self._stop_at is not None and not self._children and not self._gone

    def _turn(self) -> None:
        descriptors = [self._bell.fileno()]
        for child in self._children.values():
            descriptors += child.descriptors()
        wait(descriptors, self._patience())
        self._bell.answer()
        for child in tuple(self._children.values()):
            self._listen(child)
        self._stop_if_asked()
        self._bury()
        if self._stop_at is None:
            self._spawn()
        self._report_ready()

    def _patience(self) -> float:
        if self._gone:
            return FIRST_RESTART_WAIT
        missing = len(self._children) < self.options.processes
        if self._stop_at is None and missing:
            return min(TURN, max(0.0, self._start_at - time.monotonic()))
        return TURN

    def _spawn(self) -> None:
        now = time.monotonic()
        if now < self._start_at:
            return
        while len(self._children) < self.options.processes:
            worker_id = uuid4()
            try:
                child = Child(worker_id, self._config(worker_id))
            except OSError as error:
                logger.error("A worker cannot be started: %s", error)  # noqa: TRY400 - no trace helps
                self._delay_start()
                return
            self._children[worker_id] = child

    def _delay_start(self) -> None:
        wait_for = min(LONGEST_RESTART_WAIT, FIRST_RESTART_WAIT * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._start_at = time.monotonic() + wait_for

    def _config(self, worker_id: UUID) -> Config:
        options = self.options
        return Config(
            worker_id=str(worker_id),
            runner_id=str(self.id),
            runner_pid=os.getpid(),
            using=options.using,
            pools=list(options.pools),
            threads=options.threads,
            coroutines=options.coroutines,
            poll=POLL_WITH_LOOP if options.loop else POLL_WITHOUT_LOOP,
            marks_path=str(Path(options.state_dir) / f"{worker_id}.marks"),
            verbosity=options.verbosity,
        )

    def _listen(self, child: Child) -> None:
        for message in child.channel.receive():
            self._hear(child, message)
        child.channel.flush()

    def _hear(self, child: Child, message: dict[str, Any]) -> None:
        if message["kind"] == "ready":
            child.is_ready = True
            self._failures = 0
            self._look()
        elif message["kind"] == "written":
            self._is_quiet = False
            self._kick(message["pools"])

    def _kick(self, pools: list[str]) -> None:
        if self._loops is not None:
            self._loops.kick(pools)
            return
        for pool in pools:
            try:
                kick.kick(self.options.using, pool)
            except Error as error:
                # A hint only: the backstop of whoever has the loop finds the rows.
                logger.warning("A kick could not be sent: %s", error)
                retry.forget_broken(self.options.using)

    def _look(self) -> None:
        self._is_quiet = False
        if self._loops is not None:
            self._loops.look()

    def _stop_if_asked(self) -> None:
        now = time.monotonic()
        is_drained = self.options.drain and self._is_quiet and self._is_ready
        if self._stop_at is None and (self._signals or is_drained):
            self._stop_at = now + self.options.shutdown_timeout
            for child in self._children.values():
                child.stop()
        elif self._stop_at is not None and (self._signals > 1 or now >= self._stop_at):
            if self._children:
                self._exit_code = 1
            for child in self._children.values():
                child.kill()

    def _bury(self) -> None:
        """Write the death of each ended worker, as soon as the database takes it."""
        for worker_id, child in tuple(self._children.items()):
            if child.has_ended():
                # What it said before its end counts: its completions are committed.
                self._listen(child)
                del self._children[worker_id]
                self._gone.append(child)
                if self._stop_at is None:
                    logger.error("A worker ended: %s", child.last_exit())
                    if child.is_ready:
                        self._start_at = time.monotonic()
                    else:
                        self._delay_start()
        while self._gone:
            child = self._gone[0]
            try:
                workers.ended(
                    self.options.using,
                    child.id,
                    is_dead=child.is_dead,
                    last_exit=child.last_exit(),
                    begun=child.begun(),
                )
            except Error as error:
                logger.warning("A death cannot be written yet: %s", error)
                retry.forget_broken(self.options.using)
                return
            self._gone.pop(0).close()
            self._look()

    def _report_ready(self) -> None:
        if self._is_ready or self._stop_at is not None:
            return
        ready = sum(child.is_ready for child in self._children.values())
        if ready >= self.options.processes:
            self._is_ready = True
            self._is_quiet = False
            self._look()
            self._tell_ready(self._loops.wake_up if self._loops is not None else "none")

    def _end(self) -> None:
        """Consume the last completions: a clean stop leaves nothing half done."""
        if self._loops is not None:
            self._loops.finish()
            self._loops.stop()
        connections.close_all()
        self._bell.close()
