"""The decision of a pass: ``plan(snapshot, now)``, phase after phase."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from django_workpool.planner.admission import Admission, knows
from django_workpool.planner.due import next_state
from django_workpool.planner.free import Draft, freed
from django_workpool.planner.snapshot import COROUTINE
from django_workpool.planner.steps import Plan, Start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from django_workpool.planner.snapshot import (
        Executing,
        Snapshot,
    )

# Hand-out number = generation * 2**16 + place in the plan (protocol R10).
HAND_OUT_BITS = 16
# The bounds of one pass (protocol R5); starts have theirs in ``admission``.
MAX_COMPLETIONS = 500
MAX_CANCELATIONS = 200


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide what one pass does with what it read.

    Deterministic: an equal snapshot and an equal *now* give an equal plan, in whatever
    order the rows were read.
    """
    draft = freed(snapshot)
    snapshot = draft.snapshot
    admission = admission_for(draft, now)
    starts = tuple(_start(snapshot, admission))
    expired = _expired_before(snapshot, now)
    is_busy = bool(
        draft.completions
        or draft.cancelations
        or draft.lost
        or draft.given_back
        or snapshot.doubled
    )
    return Plan(
        completions=tuple(draft.completions),
        canceled=tuple(draft.canceled),
        flagged=tuple(draft.flagged.items()),
        cancelations=tuple(draft.cancelations),
        lost=tuple(draft.lost),
        given_back=tuple(draft.given_back),
        restarted=tuple(draft.restarted),
        doubled=snapshot.doubled,
        starts=starts,
        skipped=frozenset(draft.skipped),
        unknown=frozenset(
            work.fn_handle for work in snapshot.due if not knows(work, admission)
        ),
        # Bounded: a pass that recovers leaves the cleaning to the next one.
        expired_before=None if draft.lost or draft.given_back else expired,
        next=next_state(
            snapshot.pool,
            now,
            is_busy=is_busy or bool(starts) or expired is not None,
            has_skipped=bool(draft.skipped),
            is_saturated=_is_saturated(admission),
        ),
    )


def admission_for(draft: Draft, now: datetime) -> Admission:
    """Return the state of giving out slots, beside what still runs."""
    return Admission(
        pool=draft.snapshot.pool,
        now=now,
        used_lanes=(row.lane for row in draft.running.values()),
        workers=_with_room(draft),
        canceled=frozenset(work_id for _, work_id in draft.canceled),
    )


def _with_room(draft: Draft) -> Iterator[Executing]:
    """Yield the workers with the room that this pass gives back to them.

    So that the pass that frees a slot also fills it.
    """
    freed = draft.before - draft.running.keys()
    rows = [row for row in draft.snapshot.running if row.work_id in freed]
    used = Counter((row.worker_id, row.is_async) for row in rows)
    for worker in draft.snapshot.workers:
        yield replace(
            worker,
            free_threads=worker.free_threads + used[worker.id, False],
            free_coroutines=worker.free_coroutines + used[worker.id, True],
        )


def _start(snapshot: Snapshot, admission: Admission) -> Iterator[Start]:
    """Phase 4: the head of the queue, in order, as far as the predicates admit it."""
    for work in snapshot.due:
        failing = admission.failing(work)
        if failing is not None:
            if failing.is_general:
                return
            continue
        place = admission.started
        worker, lane = admission.give(work)
        yield Start(
            id=work.id,
            work_id=work.work_id,
            is_async=worker.handles[work.fn_handle] == COROUTINE,
            hand_out=(snapshot.generation << HAND_OUT_BITS) + place,
            worker_id=worker.id,
            lane=lane,
            place=1,
        )


def _is_saturated(admission: Admission) -> bool:
    """Say whether a new work could not start now: enqueue need not wake anyone."""
    has_room = any(
        entry.threads > 0 or entry.coroutines > 0 for entry in admission.capacities
    )
    return admission.free_slots == 0 or not has_room


def _expired_before(snapshot: Snapshot, now: datetime) -> datetime | None:
    """Return the age limit of ended works, if one is past it."""
    ttl, oldest = snapshot.pool.status_ttl, snapshot.oldest_completed_at
    if ttl is None or oldest is None:
        return None
    return now - ttl if oldest <= now - ttl else None
