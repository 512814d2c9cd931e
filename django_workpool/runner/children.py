"""Start a worker process, talk to it, and say how it ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from django_workpool.failpoints import failpoint
from django_workpool.runner import marks
from django_workpool.runner.channel import Channel

if TYPE_CHECKING:
    from uuid import UUID

    from django_workpool.engine.complete import Key
    from django_workpool.runner.config import Config

# The path of this process, so that a worker finds what its runner found.
_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from django_workpool.runner.bootstrap import main;"
    " main(int(sys.argv[2]), sys.argv[3])"
)


class Child:
    """One worker process of this runner.

    Started by exec, never by fork alone: it inherits no connection and no thread.
    """

    def __init__(self, worker_id: UUID, config: Config) -> None:
        """Start it; must be called in the main thread (parent-death signal)."""
        failpoint("spawn.before")
        self.id = worker_id
        self.marks_path = Path(config.marks_path)
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own command line
                [
                    sys.executable,
                    "-c",
                    _CODE,
                    json.dumps(sys.path),
                    str(theirs.fileno()),
                    json.dumps(asdict(config)),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self.channel = Channel(ours)
        self.is_ready = False
        self.was_stopped = False
        # Why its runner killed it, in words; empty if nobody did.
        self.killed_because = ""
        self._pidfd = _open_pidfd(self.process.pid)

    def descriptors(self) -> list[int]:
        """Return what becomes readable when it speaks or ends."""
        fds = [] if self.channel.is_closed else [self.channel.fileno()]
        return fds if self._pidfd is None else [*fds, self._pidfd]

    def stop(self) -> None:
        """Ask it to take no more works and to end when the last one has."""
        self.was_stopped = True
        self.channel.send("stop")

    def kill(self, reason: str) -> None:
        """End it now; *reason* stands in the records of what it was doing."""
        self.killed_because = self.killed_because or reason
        with suppress(ProcessLookupError):
            self.process.kill()

    def has_ended(self) -> bool:
        """Say whether it is gone; this waits for the child, so it is proof."""
        return self.process.poll() is not None

    @property
    def is_dead(self) -> bool:
        """Whether it ended in any other way than by a clean stop."""
        return not (self.was_stopped and self.process.returncode == 0)

    def last_exit(self) -> str:
        """Return how it ended, in words."""
        code = self.process.returncode
        if code is None:
            return ""
        if self.killed_because and code == -signal.SIGKILL:
            return f"ended by its runner: {self.killed_because}"
        if code >= 0:
            return f"exit code {code}"
        hint = ", possibly out of memory" if -code == signal.SIGKILL else ""
        return f"killed by signal {-code} ({signal.Signals(-code).name}{hint})"

    def begun(self) -> list[Key] | None:
        """Return what had begun, by its marks; ``None`` for all, if they are gone."""
        if not self.is_ready and not self.marks_path.exists():
            # It never got as far as its marks, so it never began anything.
            return []
        return marks.read(self.marks_path)

    def close(self) -> None:
        """Give back descriptors and the file of marks."""
        self.channel.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        self.marks_path.unlink(missing_ok=True)


def _open_pidfd(pid: int) -> int | None:
    # Without it (no Linux) the end shows at the socket and at the next turn.
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
