"""Other callers: threads, each with connections of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, TypeVar

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool.models import Work

_Value = TypeVar("_Value")


def elsewhere(call: Callable[[], _Value]) -> _Value:
    """Return what *call* returns in another thread, on connections of its own."""
    with ThreadPoolExecutor(max_workers=1) as other:
        return other.submit(closing, call).result()


def together(call: Callable[[int], Work], *, callers: int, sessions: int) -> list[Work]:
    """Let *callers* call at the same time, from as many threads as *sessions*.

    Each caller is told its number.  All threads meet before the first call.
    """
    start = Barrier(sessions)

    def several(first: int) -> list[Work]:
        start.wait()
        return [call(number) for number in range(first, callers, sessions)]

    with ThreadPoolExecutor(max_workers=sessions) as others:
        runs = [
            others.submit(closing, lambda first=first: several(first))
            for first in range(sessions)
        ]
        return [work for run in runs for work in run.result()]


def closing(call: Callable[[], _Value]) -> _Value:
    """Return what *call* returns, and close the connections of this thread."""
    try:
        return call()
    finally:
        connections.close_all()
