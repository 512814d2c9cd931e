"""The options of a pool: what is allowed, what code declared, what is in force.

No model and no query: ``Workpool(...)`` at module level ends here.  An option in force
is the operator's override if there is one, else what code declared, else the default.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django_workpool import arguments
from django_workpool.choices import LogLevel
from django_workpool.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger("django_workpool")

MAX_PARALLELISM_LIMIT = 10_000
POOL_NAME_BYTES = 63
LONGEST_TTL = timedelta(days=36_500)
LONGEST_REASON = 500
EXECUTORS = ("local",)


class _Sentinel:
    """A value that stands for none of an option's own."""

    def __init__(self, name: str) -> None:
        """Remember the name."""
        self._name = name

    def __repr__(self) -> str:
        """Return the name."""
        return self._name


# Not given: what is stored stays.
UNSET: Final[Any] = _Sentinel("UNSET")
# In ``update``: what code declares is in force again.
DECLARED: Final[Any] = _Sentinel("DECLARED")
DEFAULTS: Final[Mapping[str, Any]] = {
    "max_parallelism": 10,
    "status_ttl": timedelta(days=1),
    "log_level": LogLevel.WARNING.value,
    "executor": "local",
}


def check_name(name: object) -> str:
    """Return *name* if a pool can be called so.

    Raises:
        InvalidOptionError: Not a text of 1 to 63 bytes in UTF-8 of visible characters.
    """
    advice = f"Give a text of 1 to {POOL_NAME_BYTES} bytes in UTF-8."
    if not isinstance(name, str):
        raise InvalidOptionError("name", name, advice)
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= POOL_NAME_BYTES:
        raise InvalidOptionError("name", name, advice)
    if name != name.strip() or not name.isprintable():
        raise InvalidOptionError(
            "name", name, "Leave out blanks at the ends and control characters."
        )
    return name


def _max_parallelism(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_PARALLELISM_LIMIT:
        raise InvalidOptionError(
            "max_parallelism",
            value,
            f"Give a whole number from 0 (starts nothing) to {MAX_PARALLELISM_LIMIT}.",
        )
    return value


def _status_ttl(value: object) -> timedelta | None:
    if value is None:
        return None
    advice = (
        "Give a timedelta or seconds, from 0 (deleted at once) to 100 years, or None"
        " (kept for ever)."
    )
    found: object = value
    if type(value) in {int, float}:
        try:
            found = timedelta(seconds=value)  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            found = None
    if not isinstance(found, timedelta) or not timedelta(0) <= found <= LONGEST_TTL:
        raise InvalidOptionError("status_ttl", value, advice)
    return found


def _log_level(value: object) -> str:
    level = "WARNING" if value == "WARN" else value
    if not isinstance(level, str) or level not in LogLevel.values:
        raise InvalidOptionError(
            "log_level", value, f"Give one of {', '.join(LogLevel.values)}, or WARN."
        )
    return str(level)


def _executor(value: object) -> str:
    if value not in EXECUTORS:
        raise InvalidOptionError(
            "executor", value, f"Give one of {', '.join(EXECUTORS)}."
        )
    return str(value)


_CHECKS: Final[Mapping[str, Callable[[object], Any]]] = {
    "max_parallelism": _max_parallelism,
    "status_ttl": _status_ttl,
    "log_level": _log_level,
    "executor": _executor,
}


def check(name: str, value: object) -> Any:
    """Return *value* of the option *name* in its stored form.

    Raises:
        InvalidOptionError: No such option, or not a value that it may have.
    """
    check_known(name)
    return _CHECKS[name](value)


def check_known(name: str) -> None:
    """Refuse what is no option of a pool.

    Raises:
        InvalidOptionError: No such option.
    """
    if name not in _CHECKS:
        raise InvalidOptionError(
            "option", name, f"The options of a pool are {', '.join(_CHECKS)}."
        )


def check_pause(reason: object, until: object) -> None:
    """Refuse what a pause cannot have.

    Raises:
        InvalidOptionError: A reason that is no text of 500 characters at most, or a
        time
            that is not aware.
    """
    if not isinstance(reason, str) or not _is_storable(reason):
        raise InvalidOptionError(
            "reason",
            reason,
            f"Give a text of {LONGEST_REASON} characters at most, without NUL and"
            " lone surrogates.",
        )
    if until is not None and not _is_moment(until):
        raise InvalidOptionError(
            "until", until, "Give an aware datetime between the years 2 and 9998."
        )


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return len(text) <= LONGEST_REASON and "\x00" not in text


def _is_moment(value: object) -> bool:
    """Say whether *value* is a time that stays one in every zone."""
    return (
        isinstance(value, datetime)
        and value.utcoffset() is not None
        and MINYEAR < value.year < MAXYEAR
    )


def check_timeout(timeout: object) -> float | None:
    """Return the seconds to wait; ``None`` waits for ever.

    Raises:
        InvalidOptionError: Neither a timedelta nor a number.
    """
    if timeout is None:
        return None
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if type(timeout) in {int, float} and timeout == timeout:
        return float(timeout)  # type: ignore[arg-type]
    raise InvalidOptionError(
        "timeout", timeout, "Give a timedelta or seconds, or None to wait for ever."
    )


def overrides_of(text: str) -> dict[str, Any]:
    """Return the overrides that a ``Pool`` row stores.

    What cannot be read, or no option may have, is left out and logged once: one spoiled
    row must not stop the loop, and what code declares holds instead.
    """
    return {} if text in {"", "{}"} else dict(_read_overrides(text))


@functools.lru_cache(maxsize=256)
def _read_overrides(text: str) -> dict[str, Any]:
    found = {}
    try:
        for name, value in dict(arguments.decode(text)).items():
            found[name] = check(name, value)
    except (TypeError, ValueError) as error:
        logger.error("Overrides of a pool cannot be read: %s (%s)", text, error)  # noqa: TRY400 - no trace helps
    return found


def overrides_text(overrides: Mapping[str, object]) -> str:
    """Return overrides as a ``Pool`` row stores them."""
    return arguments.encode(dict(overrides)) if overrides else json.dumps({})


@dataclass
class _Declared:
    """What code of this process declared, by pool; handles of one name are merged."""

    pools: dict[str, dict[str, Any]] = field(default_factory=dict)
    aliases: dict[str, str | None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_declared = _Declared()


def declare(name: str, options: Mapping[str, object], using: str | None) -> None:
    """Remember what code declares for the pool *name*; unset options stay open."""
    with _declared.lock:
        _declared.pools.setdefault(name, {}).update(options)
        # A later handle on another database leaves the earlier ones where they are.
        if _declared.aliases.get(name) is None:
            _declared.aliases[name] = using


def declared() -> dict[str, dict[str, Any]]:
    """Return all pools that code of this process declared, with their set options."""
    with _declared.lock:
        return {name: dict(options) for name, options in _declared.pools.items()}


def declared_options(name: str) -> dict[str, Any]:
    """Return what code of this process declared for one pool; empty if nothing."""
    with _declared.lock:
        return dict(_declared.pools.get(name, {}))


def declared_alias(name: str) -> str | None:
    """Return the database that code named for the pool; ``None`` leaves it open."""
    with _declared.lock:
        return _declared.aliases.get(name)
