"""Pool log levels, event lines and phase timers.

Events are facts emitted once; only this module makes text of them.  Arguments, results
and context never appear.  Whether a line is wanted is decided by the pool's level,
which an operator changes without a restart, not by the level of a logger.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from django_workpool.choices import LogLevel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

REPORT: Final = 25
LEVELS: Final[Mapping[str, int]] = {
    LogLevel.DEBUG.value: logging.DEBUG,
    LogLevel.INFO.value: logging.INFO,
    LogLevel.REPORT.value: REPORT,
    LogLevel.WARNING.value: logging.WARNING,
    LogLevel.ERROR.value: logging.ERROR,
}
events = logging.getLogger("django_workpool.events")
loop = logging.getLogger("django_workpool.loop")
runner = logging.getLogger("django_workpool.runner")


def is_wanted(level: int, pool_level: str) -> bool:
    """Say whether a pool of *pool_level* shows lines of *level*."""
    return level >= LEVELS.get(pool_level, logging.WARNING)


def emit(event: str, pool_level: str, fields: Mapping[str, object]) -> None:
    """Write one event as one line of JSON, if the pool's level wants it."""
    if not is_wanted(logging.INFO, pool_level):
        return
    line = json.dumps({"event": event, **fields}, default=_plain)
    _hand_over(events, logging.INFO, line)


def milliseconds(moment: datetime | None) -> float | None:
    """Return a time as the seed's events carry it: milliseconds of the epoch."""
    return None if moment is None else round(moment.timestamp() * 1000, 3)


def lag_ms(earlier: datetime | None, later: datetime | None) -> float | None:
    """Return the milliseconds between two times, never less than nothing."""
    if earlier is None or later is None:
        return None
    return max(0.0, round((later - earlier).total_seconds() * 1000, 3))


def tell(
    logger: logging.Logger,
    level: int,
    pool_level: str,
    message: str,
    *,
    error: BaseException | None = None,
    **fields: object,
) -> None:
    """Log a phrase and its fields, in text and as extra, if the pool's level wants."""
    if is_wanted(level, pool_level):
        named = ", ".join(f"{key} {value}" for key, value in fields.items())
        logger.log(
            level, "%s (%s)", message, named, exc_info=error, extra={"workpool": fields}
        )


class PhaseTimer:
    """Times the phases of one pass; shown at DEBUG."""

    def __init__(self) -> None:
        """Start at once."""
        self.began = time.perf_counter()
        self.phases: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time one phase."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = round((time.perf_counter() - began) * 1000, 3)

    def elapsed_ms(self) -> float:
        """Return the milliseconds since the start."""
        return round((time.perf_counter() - self.began) * 1000, 3)

    def show(self, pool: str, pool_level: str) -> None:
        """Write the phases in one line, if the pool's level wants it."""
        if is_wanted(logging.DEBUG, pool_level):
            fields = {"pool": pool, "totalMs": self.elapsed_ms(), "phases": self.phases}
            _hand_over(loop, logging.DEBUG, f"phases {json.dumps(fields)}")


def _hand_over(logger: logging.Logger, level: int, line: str) -> None:
    """Give a line to the handlers; the pool's level has already decided."""
    record = logger.makeRecord(
        logger.name, level, "(django_workpool)", 0, line, (), None
    )
    logger.handle(record)


def _plain(value: object) -> object:
    return str(value)
