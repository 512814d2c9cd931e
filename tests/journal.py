"""The oracle: a journal outside the database, and what it proves.

The database under test is a suspect, so it is no witness.  Every process appends to a
file of its own, one write of one line each; a killed process loses nothing that the
kernel has. Time is CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django_workpool import current_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

VARIABLE = "WORKPOOL_JOURNAL"
POLL = 0.005
# A bound on being stuck, with room to spare; no test is about speed.
STUCK = 30.0


def directory() -> Path:
    """Return the folder of the journal of this test."""
    return Path(os.environ[VARIABLE])


def write(line: str, **fields: Any) -> None:
    """Append one line; nothing where no test wants a journal."""
    if not os.environ.get(VARIABLE):
        return
    entry = {
        "line": line,
        "at": time.monotonic_ns(),
        "pid": os.getpid(),
        "thread": threading.get_ident(),
        **fields,
    }
    path = directory() / f"journal-{os.getpid()}.jsonl"
    descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(descriptor)


@contextmanager
def journaled() -> Iterator[None]:
    """Witness a body: its begin and its end."""
    work = current_work()
    me = {
        "work_id": str(work.work_id),
        "attempt": work.attempt,
        "pool": work.pool,
    }
    write("begin", **me)
    how = "raise"
    try:
        yield
        how = "ok"
    finally:
        write("end", how=how, **me)


@dataclass(frozen=True)
class Interval:
    """One body from begin to end; without an end it lasts until its process died."""

    work_id: str
    pool: str
    pid: int
    begin: int
    end: int | None


class Journal:
    """All lines of one test."""

    def __init__(self, path: Path) -> None:
        """Read from *path* whenever asked."""
        self.path = path

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the lines of these kinds (all, if none is named), by time."""
        found = []
        for file in self.path.glob("journal-*.jsonl"):
            # The last line of a process that is writing now may be unfinished.
            complete = file.read_text().split("\n")[:-1]
            found += [json.loads(line) for line in complete]
        chosen = [entry for entry in found if not kinds or entry["line"] in kinds]
        return sorted(chosen, key=lambda entry: entry["at"])

    def intervals(self, pool: str | None = None) -> list[Interval]:
        """Return the bodies, by begin."""
        open_: dict[tuple[str, int, int], dict[str, Any]] = {}
        found = []
        for entry in self.lines("begin", "end"):
            key = (entry["work_id"], entry["attempt"], entry["pid"])
            if entry["line"] == "begin":
                open_[key] = entry
            else:
                begin = open_.pop(key)
                found.append(_interval(begin, entry["at"]))
        found += [_interval(begin, None) for begin in open_.values()]
        wanted = [one for one in found if pool is None or one.pool == pool]
        return sorted(wanted, key=lambda one: one.begin)

    def begins(self, pool: str | None = None) -> list[str]:
        """Return the ids of works in the order of their begins."""
        return [one.work_id for one in self.intervals(pool)]

    def peak(self, pool: str, deaths: dict[int, int] | None = None) -> int:
        """Return the highest number of bodies at one instant, by sweep line.

        Args:
            pool: Whose bodies.
            deaths: When a process died (pid to monotonic nanoseconds), for bodies
                without an end.
        """
        steps = []
        for one in self.intervals(pool):
            end = one.end or (deaths or {}).get(one.pid)
            steps.append((one.begin, 1))
            if end is not None:
                steps.append((end, -1))
        highest = now = 0
        # At equal times ends come first: one may begin when another has ended.
        for _, step in sorted(steps):
            now += step
            highest = max(highest, now)
        return highest

    def overlaps(self) -> list[str]:
        """Return works of which two bodies ran at the same instant."""
        by_work = defaultdict(list)
        for one in self.intervals():
            by_work[one.work_id].append(one)
        return [
            work_id
            for work_id, runs in by_work.items()
            if any(
                first.end is not None and second.begin < first.end
                for first, second in pairwise(runs)
            )
        ]

    def wait_for(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Return the lines of *kind* once there are *count* of them."""
        until(lambda: len(self.lines(kind)) >= count, f"{count} lines {kind}")
        return self.lines(kind)

    def release(self, *names: str) -> None:
        """Let the held functions *names* go."""
        for name in names or ("held",):
            (self.path / f"{name}.go").touch()

    def has_begun(self, name: str = "held") -> bool:
        """Say whether a held function has begun."""
        return (self.path / f"{name}.begun").exists()

    def wait_begun(self, *names: str) -> None:
        """Wait until the held functions *names* have begun."""
        for name in names or ("held",):
            until(partial(self.has_begun, name), f"{name} to begin")


def _interval(begin: dict[str, Any], end: int | None) -> Interval:
    return Interval(begin["work_id"], begin["pool"], begin["pid"], begin["at"], end)


def until(condition: Callable[[], Any], what: str, seconds: float = STUCK) -> None:
    """Wait for a condition; fail, naming *what*, where it is stuck."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            msg = f"stuck for {seconds} s, waiting for {what}"
            raise AssertionError(msg)
        threading.Event().wait(POLL)


def ids(works: Iterable[Any]) -> list[str]:
    """Return the ids of works as the journal has them."""
    return [str(work.pk) for work in works]
