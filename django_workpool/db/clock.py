"""The clock for everything that processes share: the database's own.

On SQLite that is the clock of the host, which all processes of the file share.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

_injected: Callable[[], datetime] | None = None


def injected() -> datetime | None:
    """Return the time that a test injected; ``None`` outside such a test."""
    return None if _injected is None else _injected()


@contextmanager
def inject(clock: Callable[[], datetime]) -> Iterator[None]:
    """Use *clock* instead of the database's, in this process; for tests alone."""
    global _injected  # noqa: PLW0603 - one clock a process, set by tests only
    before, _injected = _injected, clock
    try:
        yield
    finally:
        _injected = before


def host_now() -> datetime:
    """Return this host's time, aware, in UTC."""
    return datetime.now(tz=UTC)


def now(using: str) -> datetime:
    """Return the time of the database *using*, aware, in UTC."""
    moment = injected()
    if moment is not None:
        return moment
    if connections[using].vendor == "sqlite":
        return host_now()
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        value = cursor.fetchone()[0]
    return as_utc(value, using)


def zone(using: str) -> tzinfo:
    """Return the zone of the naive times that *using* stores or gives."""
    connection = connections[using]
    return connection.timezone or ZoneInfo(connection.timezone_name)


def storable(moment: datetime, using: str) -> datetime:
    """Return a time as the ORM of *using* takes it.

    vendor: without ``USE_TZ``, databases without time zones take naive times only.
    """
    features = connections[using].features
    if settings.USE_TZ or features.supports_timezones:
        return moment
    return moment.astimezone(zone(using)).replace(tzinfo=None)


def as_utc(value: datetime, using: str) -> datetime:
    """Return a time that *using* gave, aware, in UTC.

    Without ``USE_TZ`` a driver gives naive times in the connection's own zone.
    """
    if value.tzinfo is None:
        value = value.replace(tzinfo=zone(using))
    return value.astimezone(UTC)


class CarriedClock:
    """The database's clock, carried on by a monotonic one between two questions.

    It goes backward only where the database's own clock was set back: an answer that
    took its time must not make a later moment look earlier.
    """

    STEP = timedelta(seconds=1)

    def __init__(self, using: str) -> None:
        """Ask the database once."""
        self._pair = (now(using), time.monotonic())

    def set(self, moment: datetime | None) -> None:
        """Take over a time that the database has just given."""
        if moment is None:
            return
        carried = self.now()
        if moment > carried or moment < carried - self.STEP:
            # One assignment: other threads read the pair while this one renews it.
            self._pair = (moment, time.monotonic())

    def now(self) -> datetime:
        """Return the time, aware, in UTC; asks nobody."""
        moment, at = self._pair
        return injected() or moment + timedelta(seconds=time.monotonic() - at)
