"""The runner: its main thread watches workers and signals; ``loops`` makes passes.

It runs no user code.
"""

from __future__ import annotations

import logging
import signal
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.db import Error, connections

from django_workpool.db import retry
from django_workpool.engine import kick
from django_workpool.executors.local import LocalExecutor
from django_workpool.runner.crew import Crew
from django_workpool.runner.loops import Loops
from django_workpool.runner.state_dir import make_state_dir
from django_workpool.runner.waiting import Bell, wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from django_workpool.runner.config import Options

logger = logging.getLogger("django_workpool.runner")

TURN = 0.5
LAST_WORDS = 2.0


class Supervisor:
    """One ``run_workpool`` process."""

    def __init__(
        self,
        options: Options,
        *,
        ready: Callable[[str], None],
        say: Callable[[str], None],
    ) -> None:
        """Tell *ready*, once, that passes are made and all workers serve.

        What else happens is told to *say*, a line each.
        """
        self.options = options
        self.id = uuid4()
        self._tell_ready = ready
        self._say = say
        self._is_ready = False
        self._bell = Bell()
        self._signals = 0
        self._is_quiet = False
        self._stop_at: float | None = None
        self._exit_code = 0
        self._killed_at = 0.0
        self._crew = Crew(
            options, self.id, hear=self._hear, changed=self._workers_changed
        )
        self._loops: Loops | None = None
        if options.loop:
            self._loops = Loops(
                using=options.using,
                runner_id=self.id,
                pools=options.pools,
                executor=LocalExecutor(self._crew.channels),
                is_eager=options.drain,
                quiet=self._hear_quiet,
            )

    def run(self) -> int:
        """Run until a signal, or until everything is drained; return the exit code."""
        make_state_dir(self.options.state_dir)
        before = {
            number: signal.signal(number, self._hear_signal)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        wakeup = signal.set_wakeup_fd(self._bell.writer(), warn_on_full_buffer=False)
        try:
            if self._loops is not None:
                self._loops.start()
            while not self._is_over():
                self._turn()
            self._end()
        finally:
            self._crew.kill("the runner ended")
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._exit_code

    def _is_over(self) -> bool:
        """Say whether all is done, or can only be left to the next runner."""
        if self._stop_at is None:
            return False
        if self._crew.is_gone():
            return True
        # Without a database the last facts cannot be written: not for ever.
        is_late = self._killed_at and time.monotonic() > self._killed_at + LAST_WORDS
        return bool(is_late and not self._crew.has_living())

    # --- heard from elsewhere ---------------------------------------------------------

    def _hear_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _hear_quiet(self) -> None:
        """Nothing is due and nothing runs; called by the loops' thread."""
        self._is_quiet = True
        if self.options.drain:
            self._bell.ring()

    def _hear(self, message: dict[str, Any]) -> None:
        if message["kind"] == "written":
            self._is_quiet = False
            self._kick(message["pools"])

    def _workers_changed(self) -> None:
        """A worker came or went: that is news to every pool (protocol R33)."""
        self._is_quiet = False
        if self._loops is not None:
            self._loops.look()
            return
        # Another runner's loops must hear of it.
        try:
            waiting = [one.pool for one in kick.overview(self.options.using)]
        except Error as error:
            logger.warning("Nobody can be told of a worker: %s", error)
            retry.forget_broken(self.options.using)
        else:
            self._kick(waiting)

    # --- the main thread --------------------------------------------------------------

    def _turn(self) -> None:
        descriptors = [self._bell.fileno(), *self._crew.descriptors()]
        wait(descriptors, self._crew.patience(TURN))
        self._bell.answer()
        self._stop_if_asked()
        self._crew.turn()
        if not self._is_ready and self._stop_at is None and self._crew.is_complete():
            self._is_ready = True
            self._workers_changed()
            self._tell_ready(self._loops.wake_up if self._loops is not None else "none")

    def _stop_if_asked(self) -> None:
        now = time.monotonic()
        if self._stop_at is None:
            is_drained = self.options.drain and self._is_quiet and self._is_ready
            if self._signals or is_drained:
                self._stop_at = now + self.options.shutdown_timeout
                self._crew.stop()
                if self._signals:
                    self._say(
                        "run_workpool stopping: running works may end within"
                        f" {self.options.shutdown_timeout:g} s;"
                        " the next signal ends them now"
                    )
        elif self._signals > 1 or now >= self._stop_at:
            # The second signal, or the end of patience: not a clean stop.
            reason = (
                "a second signal"
                if self._signals > 1
                else f"not done within {self.options.shutdown_timeout:g} s of its stop"
            )
            if not self._killed_at:
                self._say(f"run_workpool ends its workers: {reason}")
            self._killed_at = self._killed_at or now
            self._exit_code = 1
            self._crew.kill(reason)

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

    def _end(self) -> None:
        """Consume the last completions: a clean stop leaves nothing half done."""
        if self._loops is not None:
            self._loops.finish()
            self._loops.stop()
        connections.close_all()
        self._bell.close()
