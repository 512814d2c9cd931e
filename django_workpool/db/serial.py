"""Our transactions: immediate on SQLite, READ COMMITTED and limited elsewhere."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from django.db import connections, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.backends.base.base import BaseDatabaseWrapper

# A runner frozen inside a pass blocks its pool for this long at most (DESIGN 7).
LIMIT_MS = 15_000
# A pass waits for nobody's row for longer: other pools want their turn (R2).
LOCK_MS = 1_000


# The isolation with which a session's transactions begin, asked once.
_levels: WeakKeyDictionary[object, str] = WeakKeyDictionary()


def _read_committed(connection: BaseDatabaseWrapper) -> None:
    """Make the transaction that has just begun READ COMMITTED, if it is not.

    Under a fixed snapshot a statement that waited for a lock would not see what the
    holder has committed.
    """
    with connection.cursor() as cursor:
        if connection.connection not in _levels:
            # Showing takes no snapshot, so the level can still be set after it.
            cursor.execute("SHOW transaction_isolation")
            _levels[connection.connection] = cursor.fetchone()[0]
        if _levels[connection.connection] != "read committed":
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


@contextmanager
def unit(
    using: str, *, is_ours: bool = True, lock_ms: int | None = None
) -> Iterator[None]:
    """Open a transaction that will write (protocol R3).

    One that is not ours, a mutation's, keeps the isolation that the project chose.
    With *lock_ms* it gives up where somebody holds a row for longer.

    vendor: a deferred transaction of SQLite that reads first and then writes ignores
    the busy time-out, so ours begin IMMEDIATE whatever the project's default is.
    """
    connection = connections[using]
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        owns = not connection.in_atomic_block
        with transaction.atomic(using=using):
            if owns and is_ours and connection.vendor == "postgresql":
                _read_committed(connection)
            if owns and lock_ms and connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = {lock_ms}")
            yield
        return
    # The attribute comes with the session.
    connection.ensure_connection()
    before = connection.transaction_mode  # type: ignore[attr-defined]
    connection.transaction_mode = "IMMEDIATE"  # type: ignore[attr-defined]
    try:
        with transaction.atomic(using=using):
            yield
    finally:
        connection.transaction_mode = before  # type: ignore[attr-defined]


@contextmanager
def pass_unit(using: str) -> Iterator[None]:
    """Open the transaction of a pass: a unit with limits kept by the server.

    Without statistics PostgreSQL chose scans for the small tables of a pass and became
    slow as they grew; here every read has an index (protocol R3).
    """
    connection = connections[using]
    owns = not connection.in_atomic_block
    with unit(using, is_ours=False):
        # Inside a transaction of a test's they would outlast the pass.
        if connection.vendor == "postgresql" and owns:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
                    f"SET LOCAL statement_timeout = {LIMIT_MS};"
                    f"SET LOCAL lock_timeout = {LOCK_MS};"
                    f"SET LOCAL idle_in_transaction_session_timeout = {LIMIT_MS};"
                    "SET LOCAL enable_seqscan = off;"
                    "SET LOCAL enable_bitmapscan = off;"
                    # The price put on scans would look worth compiling for.
                    "SET LOCAL jit = off"
                )
        yield
