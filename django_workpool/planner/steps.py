"""A plan: what one pass will do, as frozen rows in the order of its phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_workpool.planner.due import Next


@dataclass(frozen=True, slots=True)
class Consumed:
    """A completion that leaves its table; an empty status drops it."""

    id: int
    work_id: UUID
    hand_out: int
    status: str


@dataclass(frozen=True, slots=True)
class Loss:
    """A work that ends because its worker did; status error, or canceled if flagged."""

    work_id: UUID
    status: str
    worker_id: UUID
    attempt: int
    last_exit: str
    had_begun: bool


@dataclass(frozen=True, slots=True)
class Start:
    """A work that is given to a worker, in a lane."""

    id: int
    work_id: UUID
    is_async: bool
    hand_out: int
    worker_id: UUID
    lane: int
    place: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a pass will do, in the order of its phases."""

    completions: tuple[Consumed, ...]
    canceled: tuple[tuple[int, UUID], ...]
    flagged: tuple[tuple[UUID, UUID], ...]
    cancelations: tuple[int, ...]
    lost: tuple[Loss, ...]
    given_back: tuple[tuple[UUID, int], ...]
    restarted: tuple[UUID, ...]
    doubled: tuple[int, ...]
    starts: tuple[Start, ...]
    # Works that somebody held; not a change, but a reason to look again soon.
    skipped: frozenset[UUID]
    # Functions at the head of the queue that no living worker knows.
    unknown: frozenset[str]
    expired_before: datetime | None
    next: Next

    @property
    def _moves(self) -> bool:
        return bool(
            self.completions
            or self.cancelations
            or self.lost
            or self.given_back
            or self.doubled
            or self.starts
        )

    @property
    def is_empty(self) -> bool:
        """Nothing would change: the loop may sleep."""
        return not self._moves and self.expired_before is None

    @property
    def is_only_cleanup(self) -> bool:
        """Nothing would change but that ended works are deleted."""
        return not self._moves and self.expired_before is not None
