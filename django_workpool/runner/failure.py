"""Exceptions as texts that every database stores and every process reads."""

from __future__ import annotations

import traceback

LONGEST_ERROR = 10_000
LONGEST_TRACEBACK = 100_000
LONGEST_TYPE = 255
_OUR_MODULES = ("builtins", "django_workpool")


def type_name(error: BaseException) -> str:
    """Return the name of its class: bare for built-in ones and ours, else dotted."""
    kind = type(error)
    is_known = kind.__module__.partition(".")[0] in _OUR_MODULES
    name = kind.__qualname__ if is_known else f"{kind.__module__}.{kind.__qualname__}"
    return _storable(name, LONGEST_TYPE)


def message(error: BaseException) -> str:
    """Return its text, cut if it is very long."""
    try:
        return _storable(str(error), LONGEST_ERROR)
    except Exception:  # noqa: BLE001 - user code
        return f"<{type(error).__name__} without a readable message>"


def trace(error: BaseException) -> str:
    """Return its traceback with its causes, cut if it is very long."""
    try:
        return _storable("".join(traceback.format_exception(error)), LONGEST_TRACEBACK)
    except Exception:  # noqa: BLE001 - user code
        return "<no readable traceback>"


def _storable(text: str, longest: int) -> str:
    """Cut, and replace what no database stores: NUL and lone surrogates."""
    clean = text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    if len(clean) <= longest:
        return clean
    half = longest // 2 - 10
    return f"{clean[:half]}\n… cut …\n{clean[-half:]}"
