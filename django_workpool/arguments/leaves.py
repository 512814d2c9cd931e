"""The single values: which are accepted, their JSON form, and the way back."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "LEAVES",
    "MAX_INT_DIGITS",
    "READERS",
    "RefusedError",
    "check_text",
    "type_name",
]

MAX_INT_DIGITS = 4300  # more than this int() does not read by default

_INT_BOUND = 10**MAX_INT_DIGITS
_Moment = TypeVar("_Moment", datetime, time)


class RefusedError(Exception):
    """A value that is refused; each level that it passes adds its step."""

    def __init__(self, found: str) -> None:
        super().__init__(found)
        self.found = found
        self.steps: list[str | int] = []


def type_name(value: object) -> str:
    """Name the type of a value; the value itself never stands in a message."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _same(value: object) -> object:
    return value


def check_text(value: str) -> str:
    """Return a text that every database can store, or refuse it."""
    if "\0" in value:
        raise RefusedError("str with a NUL character")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RefusedError("str with a lone surrogate") from None
    return value


def _integer(value: int) -> int:
    if not -_INT_BOUND < value < _INT_BOUND:
        raise RefusedError(f"int of more than {MAX_INT_DIGITS} digits")
    return value


def _number(value: float) -> float:
    if not math.isfinite(value):
        raise RefusedError(f"float {value}")
    return value


def _decimal(value: Decimal) -> dict[str, Any]:
    if not value.is_finite():
        raise RefusedError("Decimal that is not finite")
    return {"$decimal": str(value)}


def _timedelta(value: timedelta) -> dict[str, Any]:
    return {"$timedelta": [value.days, value.seconds, value.microseconds]}


def _moment(value: datetime | time) -> str | list[Any]:
    zone = value.tzinfo
    if not value.fold and (zone is None or zone is UTC):
        return value.isoformat()
    return [value.replace(tzinfo=None).isoformat(), value.fold, _zone(zone)]


def _zone(zone: tzinfo | None) -> str | list[Any] | None:
    if zone is None:
        return None
    if type(zone) is ZoneInfo and _is_known(zone.key):
        return zone.key
    if type(zone) is timezone:
        offset, name = zone.utcoffset(None), zone.tzname(None)
        form: list[Any] = [offset.days, offset.seconds, offset.microseconds]
        return form if name == str(timezone(offset)) else [*form, check_text(name)]
    found = f"tzinfo {type_name(zone)}, no datetime.timezone and no known ZoneInfo key"
    raise RefusedError(found)


def _is_known(key: object) -> bool:
    try:
        return type(key) is str and ZoneInfo(key).key == key
    except (LookupError, OSError, ValueError):
        return False


def _read_moment(cls: type[_Moment]) -> Callable[[Any], _Moment]:
    def read(form: Any) -> _Moment:
        if isinstance(form, str):
            return cls.fromisoformat(form)
        iso, fold, zone = form
        return cls.fromisoformat(iso).replace(tzinfo=_read_zone(zone), fold=fold)

    return read


def _read_zone(form: Any) -> tzinfo | None:
    if form is None:
        return None
    if isinstance(form, str):
        return ZoneInfo(form)
    days, seconds, microseconds, *name = form
    return timezone(timedelta(days, seconds, microseconds), *name)


LEAVES: dict[type, Callable[[Any], Any]] = {
    NoneType: _same,
    bool: _same,
    int: _integer,
    float: _number,
    str: check_text,
    datetime: lambda value: {"$datetime": _moment(value)},
    time: lambda value: {"$time": _moment(value)},
    date: lambda value: {"$date": value.isoformat()},
    timedelta: _timedelta,
    Decimal: _decimal,
    UUID: lambda value: {"$uuid": str(value)},
}
READERS: dict[str, Callable[[Any], Any]] = {
    "$datetime": _read_moment(datetime),
    "$time": _read_moment(time),
    "$date": date.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$decimal": Decimal,
    "$uuid": UUID,
}
