"""What this worker holds: fetched, begun, returned, done; and never accepted twice.

One I/O thread fetches and gives back; lanes ask before they begin.  A (work, hand-out)
once seen is forgotten only when a later fetch no longer shows it (protocol R19).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from django_workpool.engine import complete

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from django_workpool.engine.complete import Assignment, Ending, Fetched, Key

# What has not begun so long after it was fetched is given back (protocol R18).
PATIENCE = 0.25
# And so long after it was asked for it does not begin, whatever held it up.
STALE = 1.0


class Stage(Enum):
    """The life of a hand-out in its worker."""

    WAITING = auto()
    BEGUN = auto()
    RETURNED = auto()
    DONE = auto()


@dataclass(slots=True)
class Held:
    """A hand-out that this worker has seen."""

    assignment: Assignment
    asked_at: float
    fetched_at: float
    stage: Stage = Stage.WAITING
    is_canceled: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self, stage: Stage) -> bool:
        """Move a waiting hand-out on; whoever comes second gets False."""
        with self.lock:
            if self.stage is not Stage.WAITING:
                return False
            if stage is Stage.BEGUN and time.monotonic() > self.asked_at + STALE:
                # This process was frozen: what it knows may be long out of date.
                return False
            self.stage = stage
            return True


class Intake:
    """The hand-outs of one worker; ``fetch`` and ``give_back`` belong to one thread."""

    def __init__(
        self,
        *,
        using: str,
        worker_id: UUID,
        now: Callable[[], datetime],
        submit: Callable[[Held], None],
        end: Callable[[Ending], None],
    ) -> None:
        """Pass new works to *submit*, and works that ended without a begin to *end*."""
        self._using = using
        self._worker_id = worker_id
        self._now = now
        self._submit = submit
        self._end = end
        self.held: dict[Key, Held] = {}
        # Returned, yet still shown: the give-back did not reach the database.
        self._again: list[Key] = []

    def fetch(self) -> Fetched:
        """Read what is assigned, take what is new, learn what was canceled."""
        asked_at = time.monotonic()
        fetched = complete.fetch(self._using, self._worker_id, tuple(self.held))
        for key in [key for key in self.held if key not in fetched.held]:
            self._forget(key)
        new = [
            Held(assignment, asked_at, time.monotonic()) for assignment in fetched.new
        ]
        self.held.update((held.assignment.key, held) for held in new)
        for key, is_canceled in fetched.held.items():
            if is_canceled:
                self._cancel(self.held[key])
        self._again = [
            key for key in fetched.held if self.held[key].stage is Stage.RETURNED
        ]
        for held in new:
            if held.stage is Stage.WAITING:
                self._submit(held)
        return fetched

    def _forget(self, key: Key) -> None:
        """The row is gone: a hand-out that has not begun must not begin any more."""
        held = self.held[key]
        held.claim(Stage.RETURNED)
        if held.stage is not Stage.BEGUN:
            del self.held[key]

    def _cancel(self, held: Held) -> None:
        held.is_canceled = True
        was_returned = held.stage is Stage.RETURNED
        # Not begun: it ends canceled, and is never given back (protocol R20).
        if held.claim(Stage.DONE) or was_returned:
            held.stage = Stage.DONE
            self._end(complete.canceled(held.assignment, self._worker_id, self._now()))

    def give_back(self, *, everything: bool = False) -> set[str]:
        """Return what has waited too long, or all that has not begun.

        Returns:
            The pools whose loops should hear of it.
        """
        limit = time.monotonic() - (0 if everything else PATIENCE)
        keys = [
            key
            for key, held in self.held.items()
            if held.fetched_at <= limit and held.claim(Stage.RETURNED)
        ]
        keys += self._again
        complete.give_back(self._using, keys)
        self._again = []
        return {self.held[key].assignment.pool for key in keys}

    def waiting_since(self) -> float | None:
        """Return the monotonic time since when the oldest hand-out waits."""
        return min(
            (h.fetched_at for h in self.held.values() if h.stage is Stage.WAITING),
            default=None,
        )

    def is_idle(self) -> bool:
        """Say whether nothing waits and nothing runs."""
        return all(
            held.stage in {Stage.RETURNED, Stage.DONE} for held in self.held.values()
        )
