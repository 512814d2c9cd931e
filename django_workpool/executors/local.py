"""The default executor: the worker processes of the runner that made the pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_workpool.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from django_workpool.engine.loop import Passed
    from django_workpool.runner.channel import Channel


class LocalExecutor:
    """Hints to own workers over their sockets."""

    def __init__(self, channels: Callable[[], Mapping[UUID, Channel]]) -> None:
        """Ask *channels* for the living workers at each pass."""
        self._channels = channels

    def hand_out(self, passed: Passed) -> None:
        """Wake the own workers; announce works that ended without one."""
        failpoint("handout.before")
        channels = self._channels()
        applied = passed.applied
        for worker_id in {*applied.assigned, *applied.flagged}:
            channel = channels.get(worker_id)
            if channel is not None:
                channel.send("assigned")
        news = [(str(work_id), status) for work_id, status in applied.ended]
        anyone = next(iter(channels.values()), None)
        if news and anyone is not None:
            anyone.send("announce", works=news)

    def look(self) -> None:
        """Let all own workers look at what they hold."""
        for channel in self._channels().values():
            channel.send("assigned")
