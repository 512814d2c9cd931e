"""What the demo prints: a progress line and two tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django.db import DEFAULT_DB_ALIAS

from demo.workpools import POOLS
from django_workpool.models import CompletedWork, Work

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django.core.management.base import OutputWrapper

LATEST = 10
LINE_SECONDS = 1.0


class ProgressLine:
    """One line that changes in place on a terminal, and a line a second elsewhere."""

    def __init__(self, stdout: OutputWrapper) -> None:
        self._stdout = stdout
        self._shown = ""
        self._next_at = 0.0

    def show(self, text: str) -> None:
        """Show *text* if it says something new."""
        if text == self._shown:
            return
        if self._stdout.isatty():
            self._stdout.write(f"\r{text}\x1b[K", ending="")
        elif time.monotonic() < self._next_at:
            return
        else:
            self._stdout.write(text)
            self._next_at = time.monotonic() + LINE_SECONDS
        self._shown = text
        self._stdout.flush()

    def finish(self, text: str) -> None:
        """Show the last *text*, whatever the time, and go to the next line."""
        self._next_at = 0.0
        self.show(text)
        if self._stdout.isatty():
            self._stdout.write("")


def counts_table() -> str:
    """Return the ``debug_counts()`` of every pool as a table."""
    counts = {pool.name: pool.debug_counts() for pool in POOLS}
    keys = list(next(iter(counts.values())))
    rows = [[name, *(str(row[key]) for key in keys)] for name, row in counts.items()]
    return _table(["pool", *keys], rows)


def latest_table() -> str:
    """Return the works that completed last as a table, newest first."""
    names = [pool.name for pool in POOLS]
    ended = CompletedWork.objects.using(DEFAULT_DB_ALIAS).filter(pool__in=names)
    latest = list(ended.order_by("-completed_at")[:LATEST])
    works = Work.objects.using(DEFAULT_DB_ALIAS).in_bulk(
        [row.work_id for row in latest]
    )
    rows = [
        [
            row.pool,
            works[row.work_id].fn_name,
            row.completion_status,
            _milliseconds(row.started_at, row.completed_at),
            _milliseconds(works[row.work_id].enqueued_at, row.started_at),
        ]
        for row in latest
        if row.work_id in works
    ]
    return _table(["pool", "function", "status", "run time", "lag"], rows)


def _milliseconds(begin: datetime | None, end: datetime | None) -> str:
    if begin is None or end is None:
        return "-"
    return f"{(end - begin).total_seconds() * 1000:.0f} ms"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (head, rule, *rows)
    )
    return "\n".join(line.rstrip() for line in lines)
