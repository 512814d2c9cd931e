"""What differs between the versions of Python that we support."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import uuid

__all__ = ["uuid7"]

_COUNTER_BITS = 42
_MASK_30 = (1 << 30) - 1


class UUID7Generator:
    """Make UUIDs of version 7 (RFC 9562), each larger than the one before.

    Source: RFC 9562 sections 5.7 and 6.2, method 1 with a counter of 42 bits, of
    which the first is left as room for the many ids of one millisecond.
    """

    def __init__(self) -> None:
        self._start()
        # A fork may happen while another thread holds the lock, and the child must
        # not go on counting where its parent does.  Windows has no fork.
        with contextlib.suppress(AttributeError):
            os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> uuid.UUID:
        """Return the next id; safe in threads and after a fork."""
        entropy = int.from_bytes(os.urandom(10), "big")
        seed, tail = entropy >> 39, entropy & ((1 << 32) - 1)
        fresh = (time.time_ns() // 1_000_000) << _COUNTER_BITS | seed
        with self._lock:
            # max() also keeps the order when the clock is set back.
            self._last = moment = max(fresh, self._last + 1)
        return uuid.UUID(
            int=(moment >> _COUNTER_BITS) << 80
            | 0x7 << 76
            | ((moment >> 30) & 0xFFF) << 64
            | 0b10 << 62
            | (moment & _MASK_30) << 32
            | tail
        )


if sys.version_info >= (3, 14):  # pragma: no cover - no such interpreter in every run
    from uuid import uuid7
else:
    # compat: drop with Python 3.13, whose uuid module knows no version 7.
    uuid7 = UUID7Generator()
