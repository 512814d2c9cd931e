"""A worker process: one I/O thread (this one), lanes for functions."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_workpool.choices import CompletionStatus, WorkerState
from django_workpool.db import retry
from django_workpool.db.clock import CarriedClock
from django_workpool.engine import workers
from django_workpool.failpoints import failpoint
from django_workpool.models import Worker as Row
from django_workpool.runner.announcer import Announcer
from django_workpool.runner.intake import PATIENCE, Intake, Stage
from django_workpool.runner.lanes import Lanes
from django_workpool.runner.marks import Marks
from django_workpool.runner.outbox import Outbox
from django_workpool.runner.waiting import Bell, wait

if TYPE_CHECKING:
    from django_workpool.engine.complete import Ending, Fetched
    from django_workpool.runner.channel import Channel
    from django_workpool.runner.config import Config
    from django_workpool.runner.intake import Held

logger = logging.getLogger("django_workpool.runner")

# Completions that wait for the database may be so many before new works wait for them.
MARKS_MARGIN = 1024
ERROR_WAIT = 0.1
REGISTER_INTERVAL = 2.0
LONGEST_ERROR_WAIT = 2.0


class Worker:
    """The I/O thread: fetch, give-back and completion writing, in turn (R19)."""

    def __init__(self, config: Config, channel: Channel) -> None:
        """Build the parts; nothing is fetched before ``run``."""
        self.config = config
        self.channel = channel
        self.using = config.using
        self.id = UUID(config.worker_id)
        self.bell = Bell()
        self.clock = CarriedClock(config.using)
        self.announcer = Announcer(config.using)
        self.marks = Marks(
            Path(config.marks_path), config.threads + config.coroutines + MARKS_MARGIN
        )
        self.outbox = Outbox(config.using, ring=self.bell.ring, written=self._written)
        self.lanes = Lanes(
            using=config.using,
            worker_id=self.id,
            threads=config.threads,
            marks=self.marks,
            now=self.clock.now,
            end=self._end,
        )
        self.intake = Intake(
            using=config.using,
            worker_id=self.id,
            now=self.clock.now,
            submit=self.lanes.submit,
            end=self.outbox.put,
        )
        self.must_fetch = True
        self.is_draining = False
        self.fetched_at = 0.0
        self.registered_at = time.monotonic()
        self.errors = 0

    # --- called in lanes -----------------------------------------------------------

    def _end(self, held: Held, ending: Ending | None) -> None:
        if ending is None:
            self.marks.clear(held.assignment.key)
            held.stage = Stage.DONE
            self.bell.ring()
        else:
            self.outbox.put(ending)

    def _written(self, endings: list[Ending]) -> None:
        """Completions are committed: now their marks go, and the loop is kicked."""
        self.channel.send(
            "written", pools=sorted({ending.assignment.pool for ending in endings})
        )
        for ending in endings:
            key = ending.assignment.key
            self.marks.clear(key)
            held = self.intake.held.get(key)
            status = ending.status
            if held is not None:
                held.stage = Stage.DONE
                if held.is_canceled and status != CompletionStatus.SUCCESS:
                    status = CompletionStatus.CANCELED.value
            self.announcer.ending(ending, status)
        if self.is_draining:
            self.bell.ring()

    # --- the I/O thread ------------------------------------------------------------

    def run(self) -> int:
        """Work until the runner says stop, or is gone."""
        self._register()
        failpoint("worker.ready")
        self.channel.send("ready")
        while not (self.is_draining and self._is_finished()):
            self._wait()
            self._turn()
        self.lanes.stop()
        self.announcer.stop(1.0)
        self.channel.send("bye")
        self.marks.close()
        return 0

    def _register(self) -> None:
        config = self.config
        row = Row(
            id=self.id,
            runner_id=UUID(config.runner_id),
            pid=os.getpid(),
            pools=json.dumps(config.pools),
            threads=config.threads,
            coroutines=config.coroutines,
            marks_path=config.marks_path,
        )
        workers.register(self.using, row)

    def _keep_registered(self) -> None:
        """Insert the row again if it was deleted: nobody would be given works else."""
        if time.monotonic() < self.registered_at + REGISTER_INTERVAL:
            return
        self.registered_at = time.monotonic()
        if not self.is_draining and not workers.is_registered(self.using, self.id):
            logger.error("The row of worker %s was deleted; it is made again", self.id)
            self._register()
            self.channel.send("ready")

    def _is_finished(self) -> bool:
        return self.intake.is_idle() and not len(self.outbox)

    def _wait(self) -> None:
        """Sleep until somebody has a word, or a give-back or a poll is due."""
        if self.errors:
            seconds = min(LONGEST_ERROR_WAIT, ERROR_WAIT * 2 ** min(self.errors, 10))
        elif self.must_fetch or len(self.outbox):
            seconds = 0.0
        else:
            seconds = max(0.0, self.fetched_at + self.config.poll - time.monotonic())
            waiting = self.intake.waiting_since()
            if waiting is not None:
                seconds = min(seconds, max(0.0, waiting + PATIENCE - time.monotonic()))
        ready = wait([self.channel.fileno(), self.bell.fileno()], seconds)
        self.bell.answer()
        if self.channel.fileno() in ready:
            for message in self.channel.receive():
                self._hear(message)
        self.channel.flush()
        if self.channel.is_closed:
            # The runner is gone, and with it whoever would restart what we do.
            os._exit(1)

    def _hear(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "assigned":
            self.must_fetch = True
        elif kind == "announce":
            self.announcer.ended(message["works"])
        elif kind == "stop":
            self._drain()
        elif kind == "quit":
            os._exit(0)

    def _drain(self) -> None:
        self.is_draining = True
        try:
            workers.set_state(self.using, self.id, WorkerState.DRAINING)
        except Exception:  # noqa: BLE001 - the exit writes the last state anyway
            logger.warning("The state draining could not be written")

    def _turn(self) -> None:

        try:
            self.outbox.flush()
            self._give_back()
            is_due = time.monotonic() >= self.fetched_at + self.config.poll
            if self.must_fetch or is_due or self.is_draining:
                self.must_fetch = False
                self._take(self.intake.fetch())
                self._keep_registered()
        except Exception as error:
            # Kept and tried again: an outcome is never given up (P23).
            self.errors += 1
            self.must_fetch = True
            if not retry.is_transient(error):
                logger.exception("A worker's turn failed")
            retry.forget_broken(self.using)
        else:
            self.errors = 0

    def _take(self, fetched: Fetched) -> None:
        self.fetched_at = time.monotonic()
        self.clock.set(fetched.now)
        if self.is_draining:
            self._give_back()

    def _give_back(self) -> None:
        pools = self.intake.give_back(everything=self.is_draining)
        if pools:
            # They may begin elsewhere, at once (R33).
            self.channel.send("written", pools=sorted(pools))
