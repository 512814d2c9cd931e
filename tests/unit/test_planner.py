"""The planner: laws that every plan keeps, whatever a pass has read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from django_workpool.planner.explain import explained
from django_workpool.planner.plan import plan
from django_workpool.planner.snapshot import COROUTINE, THREAD, Snapshot
from tests.unit.snapshots import (
    NOW,
    UNKNOWN,
    order,
    permuted,
    snapshots,
)

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID

    from django_workpool.planner.snapshot import Running
    from django_workpool.planner.steps import Plan

# Eight laws with so many examples each make 2 000 snapshots.
laws = settings(max_examples=250, deadline=None, database=None)


def ended_by(decided: Plan) -> list[UUID]:
    """Return the works that the plan takes out of their lanes."""
    return [
        *(done.work_id for done in decided.completions if done.status),
        *(loss.work_id for loss in decided.lost),
        *(work_id for work_id, _ in decided.given_back),
    ]


def really_running(snapshot: Snapshot) -> list[Running]:
    """Return what runs: a work seen pending too was given back in between (R1)."""
    waiting = {row.work_id for row in snapshot.due}
    return [row for row in snapshot.running if row.work_id not in waiting]


# --- limit and lanes ---


@laws
@given(snapshots())
def test_a_plan_never_uses_more_lanes_than_slots(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)

    gone = set(ended_by(decided))
    before = {row.lane for row in really_running(snapshot)}
    kept = {row.lane for row in really_running(snapshot) if row.work_id not in gone}
    given_out = [start.lane for start in decided.starts]
    limit = snapshot.pool.max_parallelism
    assert len(kept) + len(given_out) <= max(limit, len(before))
    assert len(given_out) == len(set(given_out))
    assert not kept & set(given_out)
    assert all(1 <= lane <= limit for lane in given_out)
    assert {start.place for start in decided.starts} <= {1}


@laws
@given(snapshots())
def test_a_worker_is_given_what_it_knows_and_no_more_than_it_has_room_for(
    snapshot: Snapshot,
) -> None:
    decided = plan(snapshot, NOW)

    handles = {row.work_id: row.fn_handle for row in snapshot.due}
    known = {worker.id: worker.handles for worker in snapshot.workers}
    room = Counter({(w.id, False): w.free_threads for w in snapshot.workers})
    room += Counter({(w.id, True): w.free_coroutines for w in snapshot.workers})
    # What this pass takes out of a lane leaves its place in the worker too.
    gone = ended_by(decided)
    room += Counter(
        (row.worker_id, row.is_async) for row in snapshot.running if row.work_id in gone
    )
    given_out = Counter((start.worker_id, start.is_async) for start in decided.starts)
    modes = {
        start.work_id: known[start.worker_id][handles[start.work_id]]
        for start in decided.starts
    }
    assert given_out <= room
    assert modes == {
        start.work_id: COROUTINE if start.is_async else THREAD
        for start in decided.starts
    }


@laws
@given(snapshots())
def test_adding_a_slot_never_starts_fewer(snapshot: Snapshot) -> None:
    wider = replace(
        snapshot,
        pool=replace(snapshot.pool, max_parallelism=snapshot.pool.max_parallelism + 1),
    )

    fewer, more = plan(snapshot, NOW), plan(wider, NOW)

    started = [start.work_id for start in fewer.starts]
    assert started == [start.work_id for start in more.starts][: len(started)]


# --- what starts, and in which order ---


@laws
@given(snapshots())
def test_nothing_canceled_paused_or_not_due_starts_and_the_rest_keeps_its_order(
    snapshot: Snapshot,
) -> None:
    decided = plan(snapshot, NOW)

    rows = {row.id: row for row in snapshot.due}
    started = [rows[start.id] for start in decided.starts]
    requested = {request.work_id for request in snapshot.cancelations}
    assert not requested & {row.work_id for row in started}
    assert not (started and snapshot.pool.is_paused(NOW))
    assert all(row.run_at <= NOW for row in started)
    assert UNKNOWN not in {row.fn_handle for row in started}
    assert started == sorted(started, key=order)


@laws
@given(snapshots())
def test_explain_agrees_with_the_plan(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)

    started = {start.work_id for start in decided.starts}
    passing = {
        row.work_id
        for row in snapshot.due
        if all(passed for _, passed, _ in explained(snapshot, NOW, row))
    }
    assert started == passing


@laws
@given(snapshots(), st.data())
def test_removing_a_work_that_does_not_start_changes_no_other_decision(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    decided = plan(snapshot, NOW)
    touched = {start.work_id for start in decided.starts}
    touched |= {request.work_id for request in snapshot.cancelations}
    touched |= {row.work_id for row in snapshot.running}
    unrelated = [row for row in snapshot.due if row.work_id not in touched]
    removed = data.draw(st.sampled_from([*unrelated, None]))

    without = replace(
        snapshot, due=tuple(row for row in snapshot.due if row is not removed)
    )

    # What it says of unknown functions is a report, and no decision.
    assert replace(decided, unknown=frozenset()) == replace(
        plan(without, NOW), unknown=frozenset()
    )


# --- completions, cancelations, recovery ---


@laws
@given(snapshots())
def test_no_work_is_in_two_lists_and_a_completion_counts_for_its_hand_out_alone(
    snapshot: Snapshot,
) -> None:
    decided = plan(snapshot, NOW)

    running = {row.work_id: row for row in really_running(snapshot)}
    applied = [done for done in decided.completions if done.status]
    flagged = [work_id for work_id, _ in decided.flagged]
    canceled = [work_id for _, work_id in decided.canceled]
    started = [start.work_id for start in decided.starts]
    everything = [*ended_by(decided), *canceled, *started, *flagged]
    assert len(everything) == len(set(everything))
    assert all(done.hand_out == running[done.work_id].hand_out for done in applied)
    assert not snapshot.unavailable & {*ended_by(decided), *flagged}
    assert {*ended_by(decided), *flagged} <= running.keys()
    assert set(decided.restarted) <= {work_id for work_id, _ in decided.given_back}


@laws
@given(snapshots(), st.randoms(use_true_random=False))
def test_a_plan_is_a_function_of_the_rows_and_not_of_their_order(
    snapshot: Snapshot, random: Random
) -> None:
    decided = plan(snapshot, NOW)

    assert decided == plan(snapshot, NOW)
    assert decided == plan(permuted(snapshot, random.shuffle), NOW)
