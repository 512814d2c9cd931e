"""The functions that works of the tests call.

They witness outside the database: what they begin and end stands in the journal
(``tests.journal``), and a held one waits for a file.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from django.db import connection, transaction
from django.utils import timezone, translation

from django_workpool import action, current_work, mutation
from tests.app.models import Counter, Effect
from tests.journal import directory, journaled, write

if TYPE_CHECKING:
    from pathlib import Path

POLL = 0.005


@action
def add(a: int, b: int = 1) -> int:
    """Return a sum."""
    with journaled():
        return a + b


@action
def echo(value: Any = None) -> Any:
    """Return what it was given."""
    with journaled():
        return value


@action
def sleep(seconds: float) -> None:
    """Take a while."""
    with journaled():
        time.sleep(seconds)


@action
async def async_echo(value: Any = None) -> Any:
    """Return what it was given, from the event loop."""
    with journaled():
        return value


@action
async def async_sleep(seconds: float) -> None:
    """Take a while without a thread."""
    with journaled():
        await asyncio.sleep(seconds)


@action
def fail(message: str = "no") -> None:
    """Raise an error of the user's."""
    with journaled():
        raise ValueError(message)


@action
def hold(name: str = "held", outcome: str = "success") -> str:
    """Wait until the test lets it go by ``tests.journal.release``."""
    with journaled():
        (directory() / f"{name}.begun").touch()
        while not (directory() / f"{name}.go").exists():
            time.sleep(POLL)
        if outcome == "error":
            msg = "held and failed"
            raise ValueError(msg)
        return name


@action
async def async_hold(name: str = "held") -> str:
    """Wait on the event loop until the test lets it go."""
    with journaled():
        (directory() / f"{name}.begun").touch()
        while not (directory() / f"{name}.go").exists():  # noqa: ASYNC110
            await asyncio.sleep(POLL)
        return name


@action
def hold_until_canceled() -> bool:
    """Wait until its cancelation is seen."""
    with journaled():
        write("waits", **_me())
        while not current_work().cancel_requested:
            time.sleep(POLL)
        return True


@action
def die(how: str = "kill") -> None:
    """End the whole worker process."""
    with journaled():
        if how == "exit":
            os._exit(3)
        os.kill(os.getpid(), getattr(signal, f"SIG{how.upper()}"))


@action
def write_and_fail() -> None:
    """Write, and raise: autocommit keeps what was written."""
    with journaled():
        _effect("written")
        msg = "after writing"
        raise RuntimeError(msg)


@action
def whoami() -> dict[str, Any]:
    """Return what ``current_work()`` says, and where it runs."""
    with journaled():
        work = current_work()
        return {
            "work_id": work.work_id,
            "attempt": work.attempt,
            "pool": work.pool,
            "pid": os.getpid(),
            "language": translation.get_language(),
            "zone": timezone.get_current_timezone_name(),
            "in_atomic": connection.in_atomic_block,
        }


@mutation
def effect(what: str = "done", fails: bool = False, seconds: float = 0) -> str:  # noqa: FBT002
    """Leave one row, or none if it fails."""
    with journaled():
        _effect(what)
        if seconds:
            time.sleep(seconds)
        if fails:
            msg = "rolled back"
            raise ValueError(msg)
        return what


@mutation
def increment(name: str = "counter") -> int:
    """Read, add one, write; no lock."""
    with journaled():
        row, _ = Counter.objects.get_or_create(name=name, defaults={"value": 0})
        row.value += 1
        row.save(update_fields=["value"])
        return row.value


@mutation
def mutation_hold(name: str = "held") -> str:
    """Write, and wait inside the transaction until the test lets it go."""
    with journaled():
        _effect("held")
        (directory() / f"{name}.begun").touch()
        while not (directory() / f"{name}.go").exists():
            time.sleep(POLL)
        return name


@mutation
def mutation_die() -> None:
    """Write, and end the process before the commit."""
    with journaled():
        _effect("never")
        os.kill(os.getpid(), signal.SIGKILL)


@mutation
def mutation_die_once(name: str = "once") -> str:
    """Kill the process the first time, succeed the second."""
    with journaled():
        _effect("once")
        flag = directory() / f"{name}.died"
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return name


@mutation
def hooked(fails: bool = False) -> None:  # noqa: FBT002
    """Register a hook that witnesses the commit."""
    with journaled():
        me = _me()
        transaction.on_commit(lambda: write("hook", **me))
        if fails:
            msg = "no commit"
            raise ValueError(msg)


def _me() -> dict[str, Any]:
    work = current_work()
    return {"work_id": str(work.work_id), "attempt": work.attempt}


def _effect(what: str) -> None:
    work = current_work()
    Effect.objects.create(work_id=work.work_id, attempt=work.attempt, what=what)


def marker(name: str) -> Path:
    """Return the file that tells that *name* has begun."""
    return directory() / f"{name}.begun"
