"""The settings: a Django setting, else an environment variable, else the default.

Setting and variable have the same name, ``WORKPOOL_`` and the field in upper case.  An
empty variable counts as not set.
"""

from __future__ import annotations

import difflib
import functools
import os
import tempfile
from dataclasses import Field, dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import environ
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from django_workpool.exceptions import WorkpoolConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Settings", "get_settings", "unknown_settings"]

PREFIX = "WORKPOOL_"
_UNSET = object()
_LONGEST = timedelta(days=365)
_FALSE = frozenset({"false", "off", "no", "n", "0"})


# The checks return the value as the field wants it, or raise ValueError.
def _directory(value: Any) -> str:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise ValueError
    return str(Path(value))


def _switch(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise ValueError


def _count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError
    return value


def _count_or_none(value: Any) -> int | None:
    return None if value is None else _count(value)


def _names(value: Any) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, list | tuple | set | frozenset) else ("",)
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError
    return tuple(name.strip() for name in names)


def _duration(value: Any) -> timedelta:
    if type(value) in {int, float} and 0 <= value <= _LONGEST.total_seconds():
        value = timedelta(seconds=value)
    if not isinstance(value, timedelta) or not timedelta(0) <= value <= _LONGEST:
        raise ValueError
    return value


# django-environ takes every word that it does not know for False, and 5m for 5.0.
def _env_switch(env: environ.Env, name: str) -> bool:
    word = env.str(name).strip().lower()
    if word not in _FALSE and word not in env.BOOLEAN_TRUE_STRINGS:
        raise ValueError
    return bool(env.bool(name))


def _env_float(env: environ.Env, name: str) -> float:
    return float(env.str(name))


def _default_state_dir() -> str:
    parent = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    # Windows has no user ids, and its temporary directory is the user's own.
    uid = getattr(os, "getuid", int)()
    return str(Path(parent) / f"django-workpool-{uid}")


def _spec(
    read: Callable[[environ.Env, str], Any], check: Callable[[Any], Any], hint: str
) -> dict[str, Any]:
    return {"read": read, "check": check, "hint": hint}


_DIRECTORY = _spec(environ.Env.str, _directory, "Give the path of a directory.")
_SWITCH = _spec(_env_switch, _switch, "Give True or False.")
_COUNT = _spec(environ.Env.int, _count, "Give a whole number, at least 1.")
_COUNT_OR_NONE = _COUNT | {"check": _count_or_none}
_NAMES = _spec(
    environ.Env.list, _names, "Give a list of pool names; in the environment: a,b,c."
)
_DURATION = _spec(
    _env_float, _duration, f"Give a timedelta or seconds, from 0 to {_LONGEST}."
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings; every field is one, and its default stands here."""

    state_dir: str = field(default_factory=_default_state_dir, metadata=_DIRECTORY)
    """Directory of lock files and begin marks, one for each user and host.

    By default ``django-workpool-<uid>`` in ``XDG_RUNTIME_DIR``, else in the system's
    temporary directory."""

    allow_failpoints: bool = field(default=False, metadata=_SWITCH)
    """Whether ``WORKPOOL_FAILPOINTS`` is obeyed; for tests of crashes only."""

    pools: tuple[str, ...] = field(default=(), metadata=_NAMES)
    """Names of the pools that ``run_workpool`` serves; none means all."""

    processes: int = field(default=1, metadata=_COUNT)
    """Worker processes of one runner."""

    threads: int | None = field(default=None, metadata=_COUNT_OR_NONE)
    """Threads of each worker; ``None`` means the sum of the limits, 32 at most."""

    coroutines: int = field(default=1000, metadata=_COUNT)
    """Async functions that one worker runs at the same time."""

    shutdown_timeout: timedelta = field(
        default=timedelta(seconds=30), metadata=_DURATION
    )
    """How long a stopping runner waits for running functions; numbers are seconds."""

    drain: bool = field(default=False, metadata=_SWITCH)
    """Whether ``run_workpool`` ends when nothing is due."""

    loop: bool = field(default=True, metadata=_SWITCH)
    """Whether ``run_workpool`` runs passes."""

    workers: bool = field(default=True, metadata=_SWITCH)
    """Whether ``run_workpool`` starts workers."""


@functools.cache
def get_settings() -> Settings:
    """Return the settings of this process, read at the first call.

    Cached until ``setting_changed``, so ``override_settings`` works; after a change of
    the environment call ``get_settings.cache_clear()``.

    Raises:
        WorkpoolConfigError: A value cannot be used; names setting, value and hint.

    Source: DESIGN section 10.
    """
    found = {spec.name: _find(spec) for spec in fields(Settings)}
    return Settings(**{name: v for name, v in found.items() if v is not _UNSET})


def unknown_settings() -> dict[str, str]:
    """Map each unknown ``WORKPOOL_`` Django setting to the nearest known name."""
    known = [PREFIX + spec.name.upper() for spec in fields(Settings)]
    return {
        name: difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
        for name in sorted(dir(django_settings))
        if name.startswith(PREFIX) and name not in known
    }


def _find(spec: Field[Any]) -> Any:
    name = PREFIX + spec.name.upper()
    read, check = spec.metadata["read"], spec.metadata["check"]
    value = getattr(django_settings, name, _UNSET)
    is_variable = value is _UNSET
    if is_variable and not (value := os.environ.get(name)):
        return _UNSET
    try:
        return check(read(environ.Env(), name) if is_variable else value)
    except (ImproperlyConfigured, ValueError) as error:
        raise WorkpoolConfigError(name, value, spec.metadata["hint"]) from error


def _forget(*, setting: str, **_kwargs: object) -> None:
    if setting.startswith(PREFIX):
        get_settings.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_workpool.conf")
