"""When the loop looks again: at once, at a known time, or when it is kicked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django_workpool.choices import LoopState

if TYPE_CHECKING:
    from datetime import datetime

    from django_workpool.planner.snapshot import PoolOptions

# A row that somebody held is looked at again so soon (protocol R2).
SKIPPED_WAIT = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Next:
    """The state that the pass leaves in ``MainLoop``."""

    state: str
    run_at: datetime | None
    is_saturated: bool


def next_state(
    pool: PoolOptions,
    now: datetime,
    *,
    is_busy: bool,
    has_skipped: bool,
    is_saturated: bool,
) -> Next:
    """Phase 6: something done means again now, else sleep.

    A pool that is saturated, paused or without workers sleeps too; what changes that
    kicks it.
    """
    if is_busy:
        return Next(LoopState.RUNNING.value, None, is_saturated)
    if has_skipped:
        return Next(LoopState.SCHEDULED.value, now + SKIPPED_WAIT, is_saturated)
    if pool.is_paused(now) and pool.paused_until is not None:
        return Next(LoopState.SCHEDULED.value, pool.paused_until, is_saturated)
    return Next(LoopState.IDLE.value, None, is_saturated)
