"""What a pass reads of one pool before it decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

THREAD = "thread"
COROUTINE = "coroutine"


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The options in force: what code declared under what an operator overrode."""

    name: str
    max_parallelism: int
    status_ttl: timedelta | None
    log_level: str
    paused: bool = False
    paused_until: datetime | None = None

    def is_paused(self, now: datetime) -> bool:
        """Say whether nothing may start at *now*."""
        return self.paused and (self.paused_until is None or now < self.paused_until)


@dataclass(frozen=True, slots=True)
class Running:
    """A row of ``InProgressWork``."""

    work_id: UUID
    hand_out: int
    attempt: int
    worker_id: UUID
    lane: int
    place: int
    is_async: bool = False
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """A row of ``PendingCompletion``, without its values."""

    id: int
    work_id: UUID
    hand_out: int
    status: str


@dataclass(frozen=True, slots=True)
class Cancelation:
    """A row of ``PendingCancelation``, and the queue row of its work, if it has one."""

    id: int
    work_id: UUID
    start_id: int | None


@dataclass(frozen=True, slots=True)
class Due:
    """A row of ``PendingStart``."""

    id: int
    work_id: UUID
    fn_handle: str
    rank: int
    run_at: datetime


@dataclass(frozen=True, slots=True)
class Executing:
    """A ready worker that serves the pool: what it knows and what it has free.

    Free is what no in-progress row of any pool uses, before this pass frees some.
    """

    id: UUID
    handles: Mapping[str, str]
    free_threads: int
    free_coroutines: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker proven dead or stopped, while works are still assigned to it.

    ``begun`` holds (work, hand-out) of what had begun; ``None`` means everything.
    """

    id: UUID
    last_exit: str
    begun: frozenset[tuple[UUID, int]] | None


@dataclass(frozen=True, slots=True)
class Lost:
    """What recovery must know of a work whose worker is gone."""

    fn_type: str
    deaths: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One pool as a pass read it.

    ``unavailable`` holds works whose in-progress row another transaction holds or has
    taken away: this pass leaves them, and every request that concerns them, to the
    next.
    ``doubled`` holds queue rows of works that are in progress: they must go.
    """

    pool: PoolOptions
    generation: int
    running: tuple[Running, ...] = ()
    completions: tuple[Completion, ...] = ()
    cancelations: tuple[Cancelation, ...] = ()
    due: tuple[Due, ...] = ()
    workers: tuple[Executing, ...] = ()
    ended: tuple[Ended, ...] = ()
    lost: Mapping[UUID, Lost] = field(default_factory=dict)
    unavailable: frozenset[UUID] = frozenset()
    doubled: tuple[int, ...] = ()
    oldest_completed_at: datetime | None = None
