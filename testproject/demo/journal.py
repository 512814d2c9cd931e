"""A witness outside the database: when did which function begin and end?

The database is what the demo puts to the test, so it cannot testify.  Each process
appends to a file of its own, and ``CLOCK_MONOTONIC`` is one clock for all processes of
a machine, so a sweep over all marks gives the true number of running functions at every
instant.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from django_workpool import current_work

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY_VARIABLE = "DEMO_JOURNAL"


@contextmanager
def running() -> Iterator[None]:
    """Mark the begin and the end of the current work; does nothing when off."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is None:
        yield
        return
    work = current_work()
    _write(Path(directory), work.pool, str(work.work_id), 1)
    try:
        yield
    finally:
        _write(Path(directory), work.pool, str(work.work_id), -1)


def _write(directory: Path, pool: str, work_id: str, step: int) -> None:
    mark = {
        "at": time.monotonic_ns(),
        "pool": pool,
        "step": step,
        "work_id": work_id,
    }
    line = json.dumps(mark).encode() + b"\n"
    # One write to a file opened for appending: threads never mix their lines, and a
    # killed process loses nothing that it had written.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    descriptor = os.open(directory / f"{os.getpid()}.jsonl", flags, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def peaks(directory: Path) -> dict[str, int]:
    """Sweep over all marks: the most functions of each pool running at one instant."""
    running_now: dict[str, int] = {}
    highest: dict[str, int] = {}
    # At the same nanosecond the end comes first: -1 sorts before 1.
    for _at, step, pool, _work_id in sorted(_marks(directory)):
        running_now[pool] = running_now.get(pool, 0) + step
        highest[pool] = max(highest.get(pool, 0), running_now[pool])
    return highest


def begins(directory: Path) -> dict[str, int]:
    """Count how often each work began, by its id."""
    counts: dict[str, int] = {}
    for _at, step, _pool, work_id in _marks(directory):
        if step == 1:
            counts[work_id] = counts.get(work_id, 0) + 1
    return counts


def _marks(directory: Path) -> Iterator[tuple[int, int, str, str]]:
    for path in sorted(directory.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            mark = json.loads(line)
            yield mark["at"], mark["step"], mark["pool"], mark["work_id"]
