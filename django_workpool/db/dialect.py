"""Where the SQL of the supported databases differs: keys, locks, values.

A statement of ``statements.py`` is one text with holes, filled here.  Rows travel to
the database as one JSON parameter, the *keys*: that makes a statement a fixed text,
whatever the number of its rows (protocol R4).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import NotSupportedError, connections

from django_workpool.db import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SQLITE_TYPES = {"time": "text"}
_POSTGRES_TYPES = {"time": "timestamptz", "flag": "boolean"}


@dataclass(frozen=True, eq=False)
class Dialect:
    """One vendor's answers; ``holes`` fills the fixed parts of a statement."""

    vendor: str
    has_row_locks: bool
    # Can one statement delete rows and insert them elsewhere?
    moves_in_one: bool
    holes: dict[str, str]

    def keys(self, columns: Sequence[str]) -> str:
        """Return the derived table of the JSON parameter ``keys``.

        Args:
            columns: "name type" each, with types bigint, uuid, text, time and flag.
                The table has a column ``n`` too, the row's number in the parameter.
        """
        pairs = [column.split() for column in columns]
        if self.vendor == "sqlite":
            fields = ", ".join(
                f"json_extract(value, '$[{place}]') AS {name}"
                for place, (name, _) in enumerate(pairs)
            )
            return f"(SELECT {fields}, key AS n FROM json_each(%(keys)s))"
        fields = ", ".join(
            f"(e.value->>{place})::{_POSTGRES_TYPES.get(type_, type_)} AS {name}"
            for place, (name, type_) in enumerate(pairs)
        )
        rows = "json_array_elements(%(keys)s::json) WITH ORDINALITY AS e(value, n)"
        return f"(SELECT {fields}, e.n AS n FROM {rows})"


_SQLITE = Dialect(
    vendor="sqlite",
    has_row_locks=False,
    moves_in_one=False,
    holes={
        "for_update": "",
        "skip_locked": "",
        "clock": "%(now)s",
        "cross": "CROSS JOIN",
        "true": "1",
        "false": "0",
    },
)
_POSTGRES = Dialect(
    vendor="postgresql",
    has_row_locks=True,
    moves_in_one=True,
    holes={
        "for_update": "FOR UPDATE",
        "skip_locked": "FOR UPDATE SKIP LOCKED",
        "clock": "COALESCE(%(now)s::timestamptz, clock_timestamp())",
        "cross": "JOIN",
        "true": "TRUE",
        "false": "FALSE",
    },
)
_DIALECTS = {dialect.vendor: dialect for dialect in (_SQLITE, _POSTGRES)}


@lru_cache(maxsize=64)
def dialect_of(using: str) -> Dialect:
    """Return the dialect of the alias *using*.

    Raises:
        NotSupportedError: The vendor is none of ours.
    """
    vendor = connections[using].vendor
    try:
        return _DIALECTS[vendor]
    except KeyError:
        msg = (
            f"The database {using!r} is {vendor!r}; work pools run on"
            f" {', '.join(sorted(_DIALECTS))}. Put them on another alias by `using`."
        )
        raise NotSupportedError(msg) from None


def to_parameter(value: object, using: str) -> object:
    """Return *value* as the driver of *using* wants it."""
    if isinstance(value, datetime):
        if connections[using].vendor == "sqlite":
            return str(value.astimezone(clock.zone(using)).replace(tzinfo=None))
        return value
    if isinstance(value, UUID) and connections[using].vendor == "sqlite":
        return value.hex
    return value


def to_keys(rows: Iterable[Sequence[object]], using: str) -> str:
    """Return *rows* as the JSON text of the parameter ``keys``."""

    def plain(value: object) -> object:
        if isinstance(value, UUID):
            return value.hex
        converted = to_parameter(value, using)
        return converted.isoformat() if isinstance(converted, datetime) else converted

    return json.dumps(list(rows), default=plain, ensure_ascii=False)


def to_uuid(value: UUID | str) -> UUID:
    """Return an id that a raw cursor gave as a UUID."""
    return value if isinstance(value, UUID) else UUID(value)


def to_time(value: datetime | str | None, using: str) -> datetime | None:
    """Return a time that a raw cursor gave, aware, in UTC."""
    if value is None:
        return None
    if isinstance(value, str):
        naive = datetime.fromisoformat(value)
        return naive.replace(tzinfo=naive.tzinfo or clock.zone(using)).astimezone(UTC)
    return clock.as_utc(value, using)


def to_duration(value: timedelta | int | None) -> timedelta | None:
    """Return a duration that a raw cursor gave; SQLite stores microseconds."""
    return timedelta(microseconds=value) if isinstance(value, int) else value
