"""Waiting: for descriptors, for a time, for a word from another thread."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Bell:
    """A pipe that wakes a thread out of its wait; ringing twice wakes once."""

    def __init__(self) -> None:
        """Open the pipe."""
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """Return the end that becomes readable."""
        return self._read

    def writer(self) -> int:
        """Return the end that ``signal.set_wakeup_fd`` may write to."""
        return self._write

    def ring(self) -> None:
        """Wake whoever waits, or whoever waits next."""
        try:
            os.write(self._write, b"!")
        except (BlockingIOError, OSError):
            # Full: it rings already.  Closed: nobody waits any more.
            return

    def answer(self) -> None:
        """Make the bell silent again."""
        try:
            while os.read(self._read, 4096):
                pass
        except (BlockingIOError, OSError):
            return

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._read)
        os.close(self._write)


def wait(descriptors: Iterable[int], seconds: float) -> list[int]:
    """Wait *seconds* at most for readable descriptors; return these."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    ready = poller.poll(max(0.0, seconds) * 1000)
    return [descriptor for descriptor, _ in ready]


def rest(seconds: float) -> None:
    """Leave a lock to others for a moment (protocol R39)."""
    time.sleep(seconds)
