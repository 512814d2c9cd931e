"""What a pool holds, for people: counts, state of the loop, who holds the slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_workpool.db import clock
from django_workpool.engine import declare
from django_workpool.models import (
    InProgressWork,
    MainLoop,
    PendingCancelation,
    PendingCompletion,
    PendingStart,
    Pool,
    Work,
)
from django_workpool.options import overrides_of

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_workpool.models.base import QueueQuerySet
    from django_workpool.planner.snapshot import PoolOptions

UNKNOWN = "<unknown>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """One pool at a glance.

    ``overrides`` are the options that an operator set over what code declares.
    ``waiting`` counts works that may start, ``running`` slots whose attempt goes on,
    ``completing`` those whose completion no pass has consumed, ``canceling`` requests
    that no pass has consumed, ``spare_capacity`` free slots of the limit in force.
    """

    max_parallelism: int
    overrides: dict[str, Any]
    paused: bool
    paused_reason: str
    paused_until: datetime | None
    loop_state: str
    loop_run_at: datetime | None
    saturated: bool
    waiting: int
    running: int
    completing: int
    canceling: int
    slots_used: int
    spare_capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    """A work that holds a slot; ``name`` is ``<unknown>`` if its row is gone."""

    work_id: UUID
    name: str
    attempt: int
    started_at: datetime
    worker_id: UUID
    lane: int
    cancel_requested: bool


def queue_length(using: str, pool: str) -> int:
    """Return the number of works that wait for a start."""
    return PendingStart.objects.using(using).for_pool(pool).count()


def debug_counts(using: str, pool: str) -> dict[str, int]:
    """Return the rows of the pool's tables, under the seed's keys."""

    def count(rows: QueueQuerySet) -> int:  # type: ignore[type-arg]
        return rows.using(using).for_pool(pool).count()

    # In the order in which a work moves, so that none is counted twice as active.
    starts = count(PendingStart.objects.all())
    in_progress = count(InProgressWork.objects.all())
    completions = count(PendingCompletion.objects.all())
    cancelations = count(PendingCancelation.objects.all())
    return {
        "pendingStart": starts,
        "inProgressWork": in_progress,
        "pendingCompletion": completions,
        "pendingCancelation": cancelations,
        "active": in_progress - completions - cancelations,
    }


def diagnostics(using: str, pool: str) -> Diagnostics:
    """Return the state of the pool and of its loop."""
    counts = debug_counts(using, pool)
    row = Pool.objects.using(using).filter(pk=pool).first()
    options = options_in_force(using, pool)
    loop = MainLoop.objects.using(using).filter(pk=pool).first()
    lanes = InProgressWork.objects.using(using).for_pool(pool)
    used = lanes.values("lane").distinct().count()
    now = clock.now(using)
    return Diagnostics(
        max_parallelism=options.max_parallelism,
        overrides=overrides_of(row.overrides) if row is not None else {},
        paused=options.is_paused(now),
        paused_reason=row.paused_reason if row is not None else "",
        paused_until=options.paused_until,
        loop_state=loop.state if loop is not None else "idle",
        loop_run_at=_moment(using, loop.run_at) if loop is not None else None,
        saturated=loop.saturated if loop is not None else False,
        waiting=counts["pendingStart"],
        running=max(0, counts["inProgressWork"] - counts["pendingCompletion"]),
        completing=counts["pendingCompletion"],
        canceling=counts["pendingCancelation"],
        slots_used=used,
        spare_capacity=max(0, options.max_parallelism - used),
    )


def options_in_force(using: str, pool: str) -> PoolOptions:
    """Return the options in force; those declared by code while there is no row."""
    row = Pool.objects.using(using).filter(pk=pool).first()
    if row is None:
        row = declare.default_row(pool)
    columns = (
        row.max_parallelism,
        row.status_ttl,
        row.log_level,
        row.overrides,
        row.paused,
        row.paused_until,
    )
    return declare.in_force(using, pool, columns)


def running(using: str, pool: str) -> list[RunningWork]:
    """Return who holds the slots, in the order of the lanes."""
    rows = list(
        InProgressWork.objects.using(using).for_pool(pool).order_by("lane", "place")
    )
    names = dict(
        Work.objects.using(using)
        .filter(pk__in=[row.work_id for row in rows])
        .values_list("pk", "fn_name")
    )
    return [
        RunningWork(
            work_id=row.work_id,
            name=names.get(row.work_id, UNKNOWN),
            attempt=row.attempt,
            started_at=clock.as_utc(row.handed_out_at, using),
            worker_id=row.worker_id,
            lane=row.lane,
            cancel_requested=row.cancel_requested,
        )
        for row in rows
    ]


def _moment(using: str, value: datetime | None) -> datetime | None:
    return None if value is None else clock.as_utc(value, using)
