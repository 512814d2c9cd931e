"""Wake the main loop when it sleeps: by the database where it can, else by polling."""

from __future__ import annotations

import contextlib
import logging
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.db import Error, connections

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger("django_workpool.runner")

LOOP_CHANNEL = "workpool_loop"
# vendor: asking SQLite for its version costs microseconds.
SQLITE_POLL = 0.01
BACKSTOP = 1.0


def notify(using: str, pool: str) -> None:
    """Wake whoever listens for *pool*; nothing where waking means polling."""
    if connections[using].vendor == "postgresql":
        with connections[using].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [LOOP_CHANNEL, pool])


def pause(seconds: float) -> None:
    """Wait between two looks at the database."""
    time.sleep(seconds)


class Polling:
    """No wake-up by the database: only own workers and the backstop."""

    interval = BACKSTOP
    name = "polling"

    def __init__(self, using: str) -> None:
        """Open nothing."""

    def fileno(self) -> int | None:
        """Return a descriptor that becomes readable at a wake-up, if there is one."""
        return None

    def changed(self) -> Iterable[str] | None:
        """Return the pools that were kicked; ``None`` means look at all of them."""
        return ()

    def close(self) -> None:
        """Give back what was opened."""


class DataVersion(Polling):
    """vendor: ``PRAGMA data_version`` changes with every commit of another session."""

    interval = SQLITE_POLL
    name = "data_version"

    def __init__(self, using: str) -> None:
        """Open a session of its own: a commit by the same one would not show."""
        self._connection = connections.create_connection(using)
        self._version = self._read()
        self._asked_at = time.monotonic()

    def changed(self) -> Iterable[str] | None:
        """Say whether anything was committed since the last question.

        Asked less often than it is called: a busy pool commits with every pass, and
        must not make the runner look at all the others each time.
        """
        now = time.monotonic()
        if now - self._asked_at < SQLITE_POLL:
            return ()
        self._asked_at = now
        version = self._read()
        if version == self._version:
            return ()
        self._version = version
        return None

    def close(self) -> None:
        """Close the session."""
        self._connection.close()

    def _read(self) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            return int(cursor.fetchone()[0])


class Listening(Polling):
    """vendor: PostgreSQL's LISTEN on a session of its own.

    Behind a pooler in transaction mode nothing ever arrives; the backstop remains.
    """

    name = "LISTEN/NOTIFY"

    def __init__(self, using: str) -> None:
        """Open the session and listen."""
        self._connection = connections.create_connection(using)
        self._session: Any = None
        self._tried_at = 0.0
        self._open()

    def _open(self) -> None:
        self._tried_at = time.monotonic()
        with contextlib.suppress(Exception):
            self._connection.close()
        try:
            self._connection.ensure_connection()
            with self._connection.cursor() as cursor:
                cursor.execute(f"LISTEN {LOOP_CHANNEL}")
            self._session = self._connection.connection
        except Error as error:
            self._session = None
            logger.warning("No notifications, polling instead: %s", error)

    def fileno(self) -> int | None:
        """Return the socket of the session."""
        return None if self._session is None else self._session.fileno()

    def changed(self) -> Iterable[str] | None:
        """Return the pools named by the notifications that have arrived."""
        if self._session is None:
            if time.monotonic() - self._tried_at >= BACKSTOP:
                self._open()
            return ()
        try:
            return {note.payload for note in self._session.notifies(timeout=0)}
        except Exception as error:  # noqa: BLE001 - any driver error: a new session
            logger.warning("The notification session broke: %s", error)
            self._session = None
            return None

    def close(self) -> None:
        """Close the session."""
        self._connection.close()


def _kind(using: str) -> type[Polling]:
    vendor = connections[using].vendor
    if vendor == "sqlite":
        return DataVersion
    if vendor == "postgresql" and find_spec("psycopg") is not None:
        return Listening
    return Polling


def listener(using: str) -> Polling:
    """Return the best wake-up that the database *using* has, opened."""
    return _kind(using)(using)


def name_of(using: str) -> str:
    """Return what that wake-up is called, without opening it."""
    return _kind(using).name
