"""Completions on their way to the database: kept until they are committed (R24)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from django.db import DataError, Error, IntegrityError

from django_workpool.db import retry
from django_workpool.engine import complete

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool.engine.complete import Ending

logger = logging.getLogger("django_workpool.runner")

BATCH = 500


class Outbox:
    """Endings that lanes put in and the I/O thread writes, alone or in batches."""

    def __init__(
        self,
        using: str,
        *,
        ring: Callable[[], None],
        written: Callable[[list[Ending]], None],
    ) -> None:
        """Wake the I/O thread by *ring*, and tell *written* of what is committed."""
        self._using = using
        self._ring = ring
        self._written = written
        self._endings: list[Ending] = []
        self._lock = threading.Lock()

    def put(self, ending: Ending) -> None:
        """Take an ending; a mutation's own is committed already."""
        if ending.is_committed:
            self._written([ending])
            return
        with self._lock:
            self._endings.append(ending)
        self._ring()

    def __len__(self) -> int:
        """Return how many endings wait."""
        return len(self._endings)

    def flush(self) -> None:
        """Write all that waits; raises a passing error, and keeps what it could not."""
        while self._endings:
            with self._lock:
                batch = self._endings[:BATCH]
            written = self._write(batch)
            with self._lock:
                del self._endings[: len(batch)]
            self._written(written)

    def _write(self, batch: list[Ending]) -> list[Ending]:
        try:
            complete.write(self._using, batch)
        except Error as error:
            if retry.is_transient(error):
                raise
            return [self._alone(ending) for ending in batch]
        return batch

    def _alone(self, ending: Ending) -> Ending:
        """Write one ending; if its values cannot be stored, that is how it ended."""
        try:
            complete.write(self._using, [ending])
        except Error as error:
            # Only values can be at fault; all else may pass (a full disk, read-only).
            if not isinstance(error, DataError | IntegrityError):
                raise
            logger.exception("A completion cannot be stored as it is")
            ending = complete.unstorable(ending, error)
            complete.write(self._using, [ending])
        return ending
