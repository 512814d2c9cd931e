"""A thread that tells of ended works: no slot waits for receivers of signals."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connections

from django_workpool.engine import announce
from django_workpool.runner.connections import tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django_workpool.engine.complete import Ending

logger = logging.getLogger("django_workpool.runner")


class Announcer:
    """Tells in the order in which it hears."""

    def __init__(self, using: str) -> None:
        """Start the thread at the first word."""
        self._using = using
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def ending(self, ending: Ending, status: str) -> None:
        """Tell of an attempt that ended here."""
        self._put(lambda: announce.ending(ending, status))

    def ended(self, works: Sequence[Sequence[str]]) -> None:
        """Tell of works that ended without a worker."""
        news = [(UUID(work_id), status) for work_id, status in works]
        self._put(lambda: announce.ended(self._using, news))

    def _put(self, tell: Callable[[], None]) -> None:
        self._queue.put(tell)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="announcer", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        for tell in iter(self._queue.get, None):
            try:
                tell()
            except Exception:
                # At most once: what cannot be told now is not told.
                logger.exception("An event could not be announced")
            tidy()
        connections.close_all()

    def stop(self, seconds: float) -> None:
        """Tell what is left, for so long at most."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(seconds)
