"""Values that are hard to store, and what makes two values the same."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

MOMENT = datetime(2026, 10, 25, 2, 30, 15, 123456)  # noqa: DTZ001 - naive is a case
BERLIN = ZoneInfo("Europe/Berlin")
TYPED = {
    "datetime": MOMENT,
    "datetime in UTC": MOMENT.replace(tzinfo=UTC),
    "datetime in a zone": MOMENT.replace(tzinfo=BERLIN),
    "datetime the second time": MOMENT.replace(tzinfo=BERLIN, fold=1),
    "datetime with an offset": MOMENT.replace(tzinfo=timezone(timedelta(hours=-3.5))),
    "date": date(1, 1, 1),
    "time": time(23, 59, 59, 999999),
    "time in UTC": time(0, 0, tzinfo=UTC),
    "timedelta": timedelta(days=-1, microseconds=1),
    "longest timedelta": timedelta.max,
    "Decimal": Decimal("1.10"),
    "Decimal of any size": Decimal("-1E+1000"),
    "negative zero": Decimal("-0"),
    "UUID": UUID(int=2**128 - 1),
}
LOOKALIKES: dict[str, Any] = {
    "date": {"$date": "2026-10-25"},
    "not a date": {"$date": 7},
    "datetime": {"$datetime": ["2026-10-25T02:30:00", 1, "Europe/Berlin"]},
    "timedelta": {"$timedelta": [1, 2, 3]},
    "decimal": {"$decimal": "1.10"},
    "uuid": {"$uuid": str(UUID(int=0))},
    "escaped": {"$$date": "2026-10-25"},
    "in itself": {"$date": {"$date": {"$$": [{"$uuid": None}]}}},
    "with a neighbor": {"$date": "2026-10-25", "$uuid": 1},
    "stored form": {"args": [], "kwargs": {"value": {"$date": 1}}},
}


def nested(depth: int, inner: object) -> Any:
    """Put a value into that many lists and mappings, in turn."""
    for level in range(depth):
        inner = [inner] if level % 2 else {"in": inner}
    return inner


UNUSUAL = {
    "2**53 + 1": 2**53 + 1,
    "-2**63 - 1": -(2**63) - 1,
    "4300 digits": 10**4300 - 1,
    "deep": nested(400, 2**64),
    "four bytes": "\U0001f600\U0010ffff",
    "four bytes as key": {"\U0001f600": "a\u0301 \u202eright to left"},
    "controls": "\x01\x1f\x7f\u2028\ufeff\r\n\t\\\"'%s %% {} {{",
    "floats": [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e22],
    "truth": [True, 1, 1.0, False, 0, 0.0, None],
    "order of keys": {"b": 1, "a": 2, "": 3, " ": 4},
    "null word": ["null", "NaN", "Infinity"],
}


def same(value: object) -> tuple[type, str]:
    """Return what two values have in common only if they are the same in all."""
    return type(value), repr(value)
