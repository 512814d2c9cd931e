"""When ``wait`` looks again, and when it gives up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django_workpool.options import check_timeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

# Seconds between two looks, growing from the first to the last.
FIRST_LOOK = 0.01
LAST_LOOK = 0.2


def looks(
    timeout: timedelta | float | None, pool: str, work: object
) -> Iterator[float]:
    """Yield the seconds between two looks; raise when the time is over."""
    limit = check_timeout(timeout)
    began = time.monotonic()
    wait = FIRST_LOOK
    # The first look is always made, however short the time.
    left = limit
    while True:
        yield wait if left is None else max(0.0, min(wait, left))
        if left is not None and left <= 0:
            msg = f"Work {work} of pool {pool!r} has not ended within {limit} s."
            raise TimeoutError(msg)
        wait = min(LAST_LOOK, wait * 1.5)
        left = None if limit is None else limit - (time.monotonic() - began)
