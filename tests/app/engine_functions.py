"""Functions for the tests of capacity, completions and the kinds of functions."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from django.db.models import F
from django.utils import timezone, translation

from django_workpool import action, current_work, mutation
from tests.app.models import Counter, Effect
from tests.journal import directory, journaled, write

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

POLL = 0.005
SLOW_POLL = 0.25


def _connection() -> BaseDatabaseWrapper:
    return connections[DEFAULT_DB_ALIAS]


# --- capacity ---


@action
def read_add_write(name: str) -> None:
    """Read, add one, and write a little later, in autocommit and without a lock."""
    with journaled():
        row = Counter.objects.get(name=name)
        time.sleep(POLL)
        Counter.objects.filter(pk=row.pk).update(value=row.value + 1)


@action
async def wait_for_all(name: str) -> None:
    """Hold a slot and next to nothing else, until the test lets it go."""
    while not (directory() / f"{name}.go").exists():  # noqa: ASYNC110
        await asyncio.sleep(SLOW_POLL)


# --- current_work() ---


def _me() -> dict[str, Any]:
    work = current_work()
    return {"work_id": str(work.work_id), "attempt": work.attempt, "pool": work.pool}


@action
def hold_and_tell(name: str) -> dict[str, Any]:
    """Say who it is after others have begun beside it."""
    with journaled():
        while not (directory() / f"{name}.go").exists():
            time.sleep(POLL)
        return {"body": _me(), "awaited": _me()}


@action
async def async_hold_and_tell(name: str) -> dict[str, Any]:
    """Say who it is after others have begun, also from a thread that it awaits."""
    with journaled():
        while not (directory() / f"{name}.go").exists():  # noqa: ASYNC110
            await asyncio.sleep(POLL)
        return {"body": _me(), "awaited": await sync_to_async(_me)()}


@action
async def async_hold_until_canceled() -> bool:
    """Wait on the event loop until its cancelation is seen."""
    with journaled():
        while not current_work().cancel_requested:  # noqa: ASYNC110
            await asyncio.sleep(POLL)
        return True


# --- what a function leaves behind ---


@action
def leave(what: str) -> None:
    """Leave the session or the thread in a state that no other work may find."""
    with journaled():
        _LEFT[what]()


@action
async def async_leave(what: str) -> None:
    """Leave the same behind from a coroutine."""
    with journaled():
        await sync_to_async(_LEFT[what])()
        translation.activate("de")
        timezone.activate("Asia/Tokyo")


@action
def look_around() -> dict[str, Any]:
    """Return what the last function could have left, and write a row."""
    with journaled():
        return _state()


@action
async def async_look_around() -> dict[str, Any]:
    """Return the same from a coroutine."""
    with journaled():
        return await sync_to_async(_state)()


def _state() -> dict[str, Any]:
    connection = _connection()
    Effect.objects.create(work_id=current_work().work_id, attempt=1, what="looked")
    return {
        "in_atomic": connection.in_atomic_block,
        "autocommit": connection.get_autocommit(),
        "setting": _setting(connection),
        "language": translation.get_language(),
        "zone": timezone.get_current_timezone_name(),
        "names": [row.what for row in Effect.objects.exclude(what="looked")],
    }


def _setting(connection: BaseDatabaseWrapper) -> str:
    is_sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA cache_size" if is_sqlite else "SHOW work_mem")
        return str(cursor.fetchone()[0])


def _leave_atomic() -> None:
    transaction.atomic(using=DEFAULT_DB_ALIAS).__enter__()
    Effect.objects.create(work_id=current_work().work_id, attempt=1, what="left open")


def _leave_autocommit() -> None:
    connection = _connection()
    connection.set_autocommit(False)
    Effect.objects.create(work_id=current_work().work_id, attempt=1, what="left open")


def _leave_setting() -> None:
    connection = _connection()
    is_sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute(
            "PRAGMA cache_size = 777" if is_sqlite else "SET work_mem = '777kB'"
        )


def _leave_language() -> None:
    translation.activate("de")


def _leave_zone() -> None:
    timezone.activate("Asia/Tokyo")


_LEFT = {
    "atomic": _leave_atomic,
    "autocommit": _leave_autocommit,
    "setting": _leave_setting,
    "language": _leave_language,
    "zone": _leave_zone,
}


@action
def lose_connection(how: str) -> str:
    """Close the session properly, or lose it under Django's feet."""
    with journaled():
        _lose(how)
        return how


@action
async def async_lose_connection(how: str) -> str:
    """Lose the session of a coroutine."""
    with journaled():
        await sync_to_async(_lose)(how)
        return how


def _lose(how: str) -> None:
    connection = _connection()
    connection.ensure_connection()
    if how == "closed":
        connection.close()
    elif connection.vendor == "sqlite":
        connection.connection.close()
    else:
        with suppress(Error), connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


# --- conflicts ---


@mutation
def meet_conflict(*, name: str, always: bool = False) -> int:
    """Meet a real conflict, the first time or each time; return the run."""
    with journaled():
        runs = len(list(directory().glob(f"{name}-*.run")))
        (directory() / f"{name}-{runs}.run").touch()
        if not runs or always:
            _begin_conflict(name)
        me = _me()
        transaction.on_commit(lambda: write("hook", **me))
        Effect.objects.create(
            work_id=current_work().work_id, attempt=current_work().attempt, what=name
        )
        if not runs or always:
            _end_conflict(name)
        return runs + 1


def _begin_conflict(name: str) -> None:
    """vendor: a snapshot that a rival's commit makes stale; SQLite has one writer."""
    connection = _connection()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        Counter.objects.get(name=name)
        rival = threading.Thread(target=_rival, args=[name])
        rival.start()
        rival.join()


def _end_conflict(name: str) -> None:
    connection = _connection()
    if connection.vendor == "postgresql":
        Counter.objects.filter(name=name).update(value=-1)
        return
    other = connections.create_connection(DEFAULT_DB_ALIAS)
    # A dict of its own: the one that it got is that of every later session here.
    options = {**other.settings_dict["OPTIONS"], "timeout": 0}
    other.settings_dict = {**other.settings_dict, "OPTIONS": options}
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
    finally:
        other.close()


def _rival(name: str) -> None:
    try:
        Counter.objects.filter(name=name).update(value=1)
    finally:
        connections.close_all()


@mutation
def raise_in_hook() -> str:
    """Commit, and raise after it."""
    with journaled():
        work = current_work()
        Effect.objects.create(work_id=work.work_id, attempt=work.attempt, what="hook")
        transaction.on_commit(_raise)
        return "committed"


def _raise() -> None:
    msg = "after the commit"
    raise RuntimeError(msg)


@mutation
def lock_both(*, first: str, second: str) -> None:
    """Lock two rows, the second after somebody else has locked it."""
    with journaled():
        Counter.objects.filter(name=first).update(value=F("value") + 1)
        (directory() / f"{first}.locked").touch()
        while not (directory() / f"{second}.locked").exists():
            time.sleep(POLL)
        Counter.objects.filter(name=second).update(value=F("value") + 1)


@mutation
def effect_and_loss(how: str) -> str:
    """Write, and lose the session before the commit, the first time."""
    with journaled():
        work = current_work()
        Effect.objects.create(work_id=work.work_id, attempt=work.attempt, what=how)
        first = directory() / f"{how}.lost"
        if not first.exists():
            first.touch()
            _lose(how)
        return how


@action
def name_session() -> int:
    """Return the server's number of this session, and keep it open."""
    with journaled(), _connection().cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])
