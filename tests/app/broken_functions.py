"""Functions that leave behind what nobody should."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from django.db import connections, transaction

from django_workpool import action, mutation
from tests.app.models import Effect
from tests.journal import journaled


class UnreadableError(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise SystemExit(7)


class NamelessError(Exception):
    """An exception whose class has no proper module."""


NamelessError.__module__ = None  # type: ignore[assignment]


@action
def raise_unreadable() -> None:
    """Raise what cannot be shown."""
    with journaled():
        raise UnreadableError


@action
def raise_nameless() -> None:
    """Raise what cannot be named."""
    with journaled():
        raise NamelessError("nameless")


@action
async def break_the_loop() -> str:
    """Start a task that ends the event loop."""

    async def leave() -> None:
        raise SystemExit(3)

    with journaled():
        task = asyncio.ensure_future(leave())
        try:
            await task
        except SystemExit:
            return "caught"
        return "not caught"


@action
async def stop_the_loop() -> str:
    """Stop the event loop that it runs on."""
    with journaled():
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "went on"


@mutation
def leave_atomic_open(what: str) -> None:
    """Enter a transaction and never leave it."""
    with journaled():
        transaction.atomic(using="default").__enter__()
        Effect.objects.create(work_id="0" * 32, attempt=1, what=what)


@mutation
def exchange_connection(what: str) -> None:
    """Take the connection away from under its own transaction."""
    with journaled():
        Effect.objects.create(work_id="0" * 32, attempt=1, what=what)
        del connections["default"]


@action
def begin_by_hand() -> None:
    """Begin a transaction behind Django's back, and leave it open."""
    with journaled(), connections["default"].cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1")


@action
def close_stdout() -> None:
    """Close the stream that the worker flushes at its end."""
    with journaled():
        sys.stdout.close()


@action
def return_unstorable() -> Any:
    """Return what no column takes."""
    with journaled():
        return {1, 2}
