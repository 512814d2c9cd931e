"""Which database errors pass by themselves, and how often we try again.

Two budgets: expected trouble (deadlock, serialization, busy lock) is retried often
and shortly, a lost connection seldom and longer.  Only units that are idempotent and
that own their transaction are retried, never the caller's.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, TypeVar

from django.db import Error, InterfaceError, OperationalError, connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Value = TypeVar("_Value")

# vendor: PostgreSQL's serialization failure, deadlock, lock not available, statement
# canceled by one of our own time-outs.
_CONFLICT_STATES = frozenset({"40001", "40P01", "55P03", "57014"})
# vendor: connection exceptions (08), shutdown and crash (57P), too many sessions
# (53300), a session ended because it slept inside a transaction (25P03).
_LOST_STATES = ("08", "57P", "53300", "25P03")
_LOCKED_WORDS = ("database is locked", "table is locked", "database schema is locked")
CONFLICT_TRIES = 8
FIRST_WAIT = 0.01
LONGEST_WAIT = 1.0


def is_conflict(error: BaseException) -> bool:
    """Say whether *error* is a rival's doing: run the unit again at once."""
    if not isinstance(error, Error):
        return False
    if _sqlstate(error) in _CONFLICT_STATES:
        return True
    text = str(error)
    return isinstance(error, OperationalError) and any(
        words in text for words in _LOCKED_WORDS
    )


def is_connection_loss(error: BaseException) -> bool:
    """Say whether *error* means that the session is gone or cannot be had."""
    if isinstance(error, InterfaceError):
        return True
    if not isinstance(error, OperationalError) or is_conflict(error):
        return False
    state = _sqlstate(error)
    # vendor: psycopg gives no state for a broken socket, SQLite never gives one.
    return state.startswith(_LOST_STATES) if state else _has_driver_session(error)


def is_transient(error: BaseException) -> bool:
    """Say whether running the unit again can help."""
    return is_conflict(error) or is_connection_loss(error)


def waits() -> Iterator[float]:
    """Yield the waits between tries, in seconds, growing, with jitter, for ever."""
    wait = FIRST_WAIT
    while True:
        yield wait * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        wait = min(LONGEST_WAIT, wait * 2)


def pause(seconds: float) -> None:
    """Wait before the next try."""
    time.sleep(seconds)


def retried(
    unit: Callable[[], _Value], *, using: str, tries: int = CONFLICT_TRIES
) -> _Value:
    """Run *unit*, and again after an error that passes by itself.

    The unit must own its transaction.  Inside a transaction of the caller's it is run
    once: what he has done before cannot be done again by us.
    """
    if connections[using].in_atomic_block:
        return unit()
    for _, wait in zip(range(tries - 1), waits(), strict=False):
        try:
            return unit()
        except Error as error:
            if not is_transient(error):
                raise
            forget_broken(using)
            pause(wait)
    return unit()


def forget_broken(using: str) -> None:
    """Close the connection if it cannot be used any more, so that the next is new."""
    connection = connections[using]
    if connection.connection is not None and not connection.is_usable():
        connection.close()


def _sqlstate(error: BaseException) -> str:
    return getattr(error.__cause__, "sqlstate", None) or ""


def _has_driver_session(error: BaseException) -> bool:
    return type(error.__cause__).__module__.startswith("psycopg")
