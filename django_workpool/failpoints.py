"""Named points where a test can make this process stumble; nothing in production.

A failpoint is bound to an empty function unless ``WORKPOOL_FAILPOINTS`` is set in the
environment at process start **and** the settings say ``WORKPOOL_ALLOW_FAILPOINTS =
True``.

Grammar, comma-separated: ``name=action[:arg][*skip][%probability][@role]``.

* ``kill``, ``exit:N``, ``stop``: SIGKILL, ``os._exit(N)``, SIGSTOP to itself
* ``sleep:s``: wait so many seconds
* ``wait:name``: write ``name.reached``, wait until ``name.go`` exists; both lie in the
  directory ``WORKPOOL_FAILPOINTS_DIR``
* ``raise:Dotted``: raise it
* ``cut``: close the sockets under this thread's database sessions
* ``twice``: returned to the caller, which does its next write a second time

``*skip`` lets so many visits pass first, ``@role`` limits it to ``runner`` or
``worker``.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: Final = frozenset(
    {
        "enqueue.before_insert",
        "enqueue.after_insert",
        "kick.before_send",
        "sync.before_write",
        "pass.locked",
        "completions.after_read",
        "completions.mid",
        "completions.end",
        "cancelations.mid",
        "recovery.after_read",
        "recovery.mid",
        "recovery.end",
        "starts.after_plan",
        "starts.mid",
        "cleanup.mid",
        "next.before_write",
        "pass.before_commit",
        "pass.after_commit",
        "handout.before",
        "idle.before_sleep",
        "spawn.before",
        "worker.ready",
        "fetch.after",
        "mark.before",
        "mark.after",
        "lane.before_next",
        "run.after_body",
        "complete.before_write",
        "complete.mid_batch",
        "complete.after_commit",
        "giveback.before",
        "giveback.after",
        "mutation.before_body",
        "mutation.before_lock",
        "mutation.after_lock",
        "mutation.before_commit",
        "mutation.after_commit",
    }
)
TWICE: Final = "twice"
_POLL: Final = 0.002


@dataclass
class _Point:
    """One armed point."""

    action: str
    argument: str = ""
    skip: int = 0
    probability: float = 1.0

    def visit(self, name: str) -> str:
        """Act, unless this visit is let through."""
        if self.skip > 0:
            self.skip -= 1
            return ""
        if self.probability < 1 and random.random() >= self.probability:  # noqa: S311
            return ""
        _ACTIONS[self.action](self.argument or name)
        return self.action


def _kill(_argument: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exit(argument: str) -> None:
    os._exit(int(argument))


def _stop(_argument: str) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _sleep(argument: str) -> None:
    time.sleep(float(argument))


def _wait(argument: str) -> None:
    directory = Path(os.environ["WORKPOOL_FAILPOINTS_DIR"])
    (directory / f"{argument}.reached").touch()
    while not (directory / f"{argument}.go").exists():
        time.sleep(_POLL)


def _raise(argument: str) -> None:
    module, _, name = argument.rpartition(".")
    raise getattr(import_module(module), name)(f"failpoint {argument}")


def _cut(_argument: str) -> None:
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and hasattr(
            connection.connection, "fileno"
        ):
            with socket.socket(fileno=os.dup(connection.connection.fileno())) as sock:
                sock.shutdown(socket.SHUT_RDWR)


def _twice(_argument: str) -> None:
    """Leave it to the caller."""


_ACTIONS: Final[dict[str, Callable[[str], None]]] = {
    "kill": _kill,
    "exit": _exit,
    "stop": _stop,
    "sleep": _sleep,
    "wait": _wait,
    "raise": _raise,
    "cut": _cut,
    TWICE: _twice,
}


def parse(text: str, role: str) -> dict[str, _Point]:
    """Return the points of *text* that are meant for *role*."""
    points = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        rest, _, wanted = part.partition("@")
        rest, _, probability = rest.partition("%")
        rest, _, skip = rest.partition("*")
        name, _, rest = rest.partition("=")
        action, _, argument = rest.partition(":")
        if name not in NAMES or action not in _ACTIONS:
            msg = f"No failpoint or action: {part!r}. The names are in failpoints.py."
            raise ValueError(msg)
        if wanted in {"", role}:
            points[name] = _Point(
                action, argument, int(skip or 0), float(probability or 1)
            )
    return points


_points: dict[str, _Point] = {}


def failpoint(name: str) -> str:
    """Stumble here if a test armed *name*; return the action, or an empty text."""
    if not _points:
        return ""
    point = _points.get(name)
    return "" if point is None else point.visit(name)


def arm(role: str, *, is_allowed: bool) -> None:
    """Arm what the environment names, if the settings allow it."""
    _points.clear()
    text = os.environ.get("WORKPOOL_FAILPOINTS", "")
    if text and is_allowed:
        _points.update(parse(text, role))
