"""A real runner in a real process, awaited by what it prints."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil

from tests.children import child_environment, manage
from tests.journal import STUCK, until

if TYPE_CHECKING:
    from collections.abc import Callable

READY = "run_workpool ready"


class LiveRunner:
    """``manage.py run_workpool`` on the test databases, in a session of its own."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        """Start it; *variables* join its environment."""
        self.process = subprocess.Popen(
            manage("run_workpool", *arguments),
            env=child_environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        """All that it has printed, for messages."""
        return "\n".join(self.lines)

    def wait_ready(self) -> LiveRunner:
        """Wait for the readiness line."""
        self.wait_line(READY)
        return self

    def wait_line(self, text: str) -> str:
        """Wait for a line that contains *text*."""

        def found() -> bool:
            return self.process.poll() is not None or text in self.output

        until(found, f"the line {text!r}")
        line = next((line for line in self.lines if text in line), None)
        if line is None:
            self._reader.join(STUCK)
            line = next((line for line in self.lines if text in line), None)
        assert line is not None, f"ended without the line {text!r}:\n{self.output}"
        return line

    def workers(self) -> list[psutil.Process]:
        """Return its worker processes."""
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if "runner.bootstrap" in _command(child)]

    def terminate(self) -> None:
        """Send the first stop signal."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = STUCK) -> int:
        """Wait for its end; return the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(STUCK)
        return code

    def stop(self) -> int:
        """Stop it cleanly; return the exit code."""
        self.terminate()
        return self.wait()

    def kill(self) -> None:
        """End it and all of its session, whatever its state; for the end of a test."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STUCK)
        self._reader.join(STUCK)
        assert self.process.stdout is not None
        self.process.stdout.close()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def kill(process: psutil.Process, number: int = signal.SIGKILL) -> int:
    """Kill a process and wait for its end; return when, in monotonic nanoseconds.

    The time is that of the signal: the runner may see the end before this process does,
    and what begins then must not seem to overlap with what was killed.
    """
    sent = time.monotonic_ns()
    process.send_signal(number)
    psutil.wait_procs([process], timeout=STUCK)
    return sent


def wait_value(read: Callable[[], Any], expected: Any, what: str) -> None:
    """Wait until *read* returns *expected*."""
    until(lambda: read() == expected, f"{what} to be {expected!r}")
