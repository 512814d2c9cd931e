"""Exceptions as texts that every database stores and every process reads."""

from __future__ import annotations

import logging
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from django_workpool import logs

if TYPE_CHECKING:
    from django_workpool.engine.complete import Assignment

LONGEST_ERROR = 10_000
LONGEST_TRACEBACK = 100_000
LONGEST_TYPE = 255
_OUR_MODULES = ("builtins", "django_workpool")


def type_name(error: BaseException) -> str:
    """Return the name of its class: bare for built-in ones and ours, else dotted."""
    kind = type(error)
    # A class may have been given anything for these.
    module, name = str(kind.__module__), str(kind.__qualname__)
    is_known = module.partition(".")[0] in _OUR_MODULES
    return _storable(name if is_known else f"{module}.{name}", LONGEST_TYPE)


def message(error: BaseException) -> str:
    """Return its text, cut if it is very long."""
    try:
        return _storable(str(error), LONGEST_ERROR)
    except BaseException:  # noqa: BLE001 - user code
        return f"<{type(error).__name__} without a readable message>"


def trace(error: BaseException) -> str:
    """Return its traceback with its causes, cut if it is very long."""
    try:
        return _storable("".join(traceback.format_exception(error)), LONGEST_TRACEBACK)
    except BaseException:  # noqa: BLE001 - user code
        return "<no readable traceback>"


def _storable(text: str, longest: int) -> str:
    """Cut, and replace what no database stores: NUL and lone surrogates."""
    clean = text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    if len(clean) <= longest:
        return clean
    half = longest // 2 - 10
    return f"{clean[:half]}\n… cut …\n{clean[-half:]}"


def log(assignment: Assignment, error: BaseException) -> None:
    """Log a failed work with its traceback; a handler that raises changes nothing."""
    with suppress(Exception):
        logs.tell(
            logs.runner,
            logging.ERROR,
            assignment.level,
            "The function of a work failed",
            error=error,
            pool=assignment.pool,
            workId=str(assignment.work_id),
            function=assignment.fn_handle,
            attempt=assignment.attempt,
        )
