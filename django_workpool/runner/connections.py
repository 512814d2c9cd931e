"""Give the next work a clean connection, and keep a clean one open.

What a function may leave behind: an open transaction, a broken or closed session,
session variables, temporary tables, locks.  Whatever cannot be proven clean is closed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.db import connections, reset_queries

from django_workpool.runner.waiting import wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.backends.base.base import BaseDatabaseWrapper

_FLAG = "_workpool_is_dirty"
_WATCHED = "_workpool_is_watched"
# Statements that cannot change a session; any other word makes it dirty.
_HARMLESS = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|SAVEPOINT|RELEASE|ROLLBACK TO|BEGIN|VALUES"
    r"|EXPLAIN|REPLACE)\b",
    re.IGNORECASE,
)
# ... unless a harmless word calls one of these.
_HARMFUL = re.compile(
    r"set_config\s*\(|pg_(try_)?advisory_lock|get_lock\s*\(|\bSET\s+(SESSION|LOCAL)\b"
    r"|\bINTO\s+TEMP|load_extension",
    re.IGNORECASE,
)


def _watch(
    execute: Callable[..., Any],
    sql: Any,
    params: Any,
    many: bool,  # noqa: FBT001 - the signature of an execute wrapper
    context: Any,
) -> Any:
    text = sql if isinstance(sql, str) else "?"
    if not _HARMLESS.match(text) or _HARMFUL.search(text):
        setattr(context["connection"], _FLAG, True)
    return execute(sql, params, many, context)


def watch() -> None:
    """Watch this thread's connections from here on."""
    for alias in connections:
        connection = connections[alias]
        if not getattr(connection, _WATCHED, False):
            setattr(connection, _WATCHED, True)
            connection.execute_wrappers.append(_watch)


def tidy() -> None:
    """Close what the last function of this thread left unclean."""
    reset_queries()
    for connection in connections.all(initialized_only=True):
        if connection.connection is None and not connection.in_atomic_block:
            continue
        if not _is_clean(connection):
            _replace(connection)


def _is_clean(connection: BaseDatabaseWrapper) -> bool:
    if getattr(connection, _FLAG, False):
        return False
    if connection.in_atomic_block or not connection.get_autocommit():
        return False
    if connection.connection is not None and not _is_idle(connection):
        return False
    if connection.errors_occurred:
        if not connection.is_usable():
            return False
        connection.errors_occurred = False
    return True


def _is_idle(connection: BaseDatabaseWrapper) -> bool:
    """Say whether the session is there and idle, without asking the server.

    Django's own flags do not know of a BEGIN that a cursor has sent.

    vendor: an idle session of PostgreSQL has nothing to read, unless it was ended: then
    the reason, or the end, is waiting.  SQLite refuses to tell of a closed session.
    """
    session: Any = connection.connection
    try:
        if connection.vendor == "sqlite":
            return session.total_changes >= 0 and not session.in_transaction
        if connection.vendor == "postgresql":
            # 0 is libpq's PQTRANS_IDLE.
            is_idle = session.info.transaction_status == 0
            return is_idle and not session.closed and not wait([session.fileno()], 0)
    except Exception:  # noqa: BLE001 - whatever the driver says: it is not open
        return False
    return True


def _replace(connection: BaseDatabaseWrapper) -> None:
    """Close the session and forget the wrapper: its state is not to be trusted."""
    with suppress(Exception):
        if connection.connection is not None:
            connection.connection.close()
    with suppress(AttributeError):
        del connections[connection.alias]
