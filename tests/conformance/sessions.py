"""Second sessions that go on beside the test, and what a session executes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections

from tests.journal import STUCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Value = TypeVar("_Value")

# What opens and closes transactions and savepoints.
FRAMES = ("BEGIN", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO")


@contextmanager
def beside(call: Callable[[], _Value]) -> Iterator[Callable[[], _Value]]:
    """Run *call* on a connection of its own; yield what waits for its answer."""

    def closing() -> _Value:
        try:
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as other:
        running = other.submit(closing)
        yield lambda: running.result(STUCK)


@contextmanager
def statements(using: str = "default") -> Iterator[list[str]]:
    """Collect what this thread executes, but for BEGIN, SAVEPOINT and their ends."""
    found: list[str] = []

    def collect(
        execute: Callable[..., Any],
        sql: str,
        params: object,
        many: bool,
        context: dict[str, Any],
    ) -> Any:
        if not sql.startswith(FRAMES):
            found.append(sql)
        return execute(sql, params, many, context)

    with connections[using].execute_wrapper(collect):
        yield found
