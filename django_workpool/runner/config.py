"""What the command line tells a runner, and a runner its worker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Config:
    """One worker; travels as JSON on its command line.  ``poll`` is in seconds."""

    worker_id: str
    runner_id: str
    runner_pid: int
    using: str
    pools: list[str]
    threads: int
    coroutines: int
    poll: float
    marks_path: str
    verbosity: int


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line decided."""

    using: str
    pools: tuple[str, ...]
    processes: int
    threads: int
    coroutines: int
    shutdown_timeout: float
    drain: bool
    loop: bool
    state_dir: str
    verbosity: int
