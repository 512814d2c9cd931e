"""Works between their begin and their end, without a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_workpool import testing

if TYPE_CHECKING:
    from django_workpool import Workpool
    from django_workpool.engine.complete import Assignment


def begin(pool: Workpool) -> list[Assignment]:
    """Let a pass start what is due and a worker fetch it, as if it had begun."""
    testing.run_pass(pool.name)
    return testing.inline_executor().fetch()


def end(assignment: Assignment) -> None:
    """Run what ``begin`` returned, and write its completion; no pass consumes it."""
    executor = testing.inline_executor()
    executor.finish(executor.execute(assignment))
