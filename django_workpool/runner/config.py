"""What a runner tells its worker at the start."""

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
