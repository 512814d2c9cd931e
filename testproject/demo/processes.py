"""Child processes of the demo: the runner and Django's development server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
LINES_KEPT = 60
START_TIMEOUT = 40.0
STOP_TIMEOUT = 40.0


class ChildError(Exception):
    """A child process did not start, died, or did not stop as it should."""


class ManagedProcess:
    """``manage.py <arguments>`` as a child that is ready, watched and always stopped.

    Args:
        arguments: Command and options for ``manage.py``.
        environment: Variables beside those of this process.
        ready: The text that its readiness line holds.
    """

    def __init__(
        self, *arguments: str, environment: Mapping[str, str], ready: str
    ) -> None:
        self.name = arguments[0]
        self._arguments = arguments
        self._environment = environment
        self._ready_text = ready
        self._answered = threading.Event()
        self._is_ready = False
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)

    @property
    def output(self) -> str:
        """The last lines it printed, on stdout and stderr together."""
        return "".join(self._lines)

    def __enter__(self) -> Self:
        """Start the child and wait for its readiness line.

        Raises:
            ChildError: It died first, or said nothing in time.
        """
        # A process group of its own: Ctrl-C is for the demo, which then stops its
        # children in order.  From the terminal they would get a second signal.
        self._process = subprocess.Popen(  # noqa: S603 (our own command, no shell)
            [sys.executable, str(MANAGE), *self._arguments],
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read, name=self.name)
        self._reader.start()
        try:
            self._await_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Make sure that it is gone."""
        self._end()

    def check_alive(self) -> None:
        """Raise ``ChildError`` if the child has ended."""
        code = self._process.poll()
        if code is not None:
            message = f"{self.name} ended by itself with exit code {code}."
            raise ChildError(message)

    def stop(self) -> int:
        """Send SIGTERM and wait for the end.

        Returns:
            The exit code; 0 after a clean stop.

        Raises:
            ChildError: It did not end in time and was killed.
        """
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            message = f"{self.name} ignored SIGTERM for {STOP_TIMEOUT:.0f} s."
            raise ChildError(message) from error

    def _await_ready(self) -> None:
        if not self._answered.wait(START_TIMEOUT):
            message = f"{self.name} was not ready within {START_TIMEOUT:.0f} s."
            raise ChildError(message)
        if not self._is_ready:
            code = self._process.wait()
            message = f"{self.name} ended with exit code {code} before it was ready."
            raise ChildError(message)

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 (for the type checker)
        with self._process.stdout as stream:
            for line in stream:
                self._lines.append(line)
                if self._ready_text in line:
                    self._is_ready = True
                    self._answered.set()
        # The end of the output wakes whoever waits, who then sees what was not said.
        self._answered.set()

    def _end(self) -> None:
        try:
            if self._process.poll() is None:
                self.stop()
        finally:
            # Only for one that ignored SIGTERM, or when the demo is interrupted again.
            self._process.kill()
            self._process.wait()
            self._reader.join(STOP_TIMEOUT)


def free_port(host: str, wanted: int) -> int | None:
    """Return *wanted* if nobody listens there (0: any free port), else ``None``."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except OSError:
            return None
        port: int = probe.getsockname()[1]
        return port
