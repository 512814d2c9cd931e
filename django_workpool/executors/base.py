"""What a pool's executor must do: hear of what a committed pass gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from django_workpool.engine.loop import Passed


class Executor(Protocol):
    """Told after the commit of a pass; rows decide, a lost word costs time only."""

    def hand_out(self, passed: Passed) -> None:
        """Wake the workers that were given works, flags or news by *passed*."""

    def look(self) -> None:
        """Wake all workers: a pass may have committed without its reply."""
