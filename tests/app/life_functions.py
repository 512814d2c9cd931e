"""Functions for the tests of the life of works: waiting, processes, deaths."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource

from django_workpool import Workpool, action, mutation
from tests.journal import journaled


@action
def wait_in(pool: str, work_id: str) -> str:
    """Wait for another work; allowed unless it is of the same pool."""
    with journaled():
        return Workpool(pool).wait(work_id).kind


@mutation
def wait_in_mutation(pool: str, work_id: str) -> str:
    """Wait inside a transaction, which is never allowed."""
    with journaled():
        return Workpool(pool).wait(work_id).kind


@action
def pid() -> int:
    """Return the process of a sync action."""
    with journaled():
        return os.getpid()


@action
async def async_pid() -> int:
    """Return the process of an async action."""
    with journaled():
        return os.getpid()


@mutation
def mutation_pid() -> int:
    """Return the process of a mutation."""
    with journaled():
        return os.getpid()


@action
def leave(code: int) -> None:
    """End the worker process behind Python's back."""
    with journaled():
        os._exit(code)


@action
def crash() -> None:
    """Read where no memory is."""
    with journaled():
        # The crash is on purpose: nobody wants its core or its stack.
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.string_at(0)
