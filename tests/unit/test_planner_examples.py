"""The planner by example, and in a bare interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import django_workpool
from django_workpool.planner.admission import MAX_STARTS
from django_workpool.planner.plan import HAND_OUT_BITS, plan
from django_workpool.planner.snapshot import (
    Cancelation,
    Completion,
    Ended,
    Lost,
    Snapshot,
)
from tests.unit.snapshots import (
    ENDED,
    NOW,
    WORKERS,
    due,
    executing,
    in_progress,
    pool,
    work,
)


@pytest.mark.item("C14")
def test_an_equal_snapshot_gives_an_equal_plan() -> None:
    first, second = (
        Snapshot(
            pool=pool(max_parallelism=2),
            generation=5,
            running=(in_progress(1, lane=1),),
            completions=(Completion(1, work(1), 10, "success"),),
            cancelations=(Cancelation(1, work(2), 2),),
            due=(due(2), due(3), due(4), due(5)),
            workers=(executing(0), executing(1)),
        )
        for _ in range(2)
    )

    decided = plan(first, NOW)

    assert first is not second
    assert decided == plan(second, NOW)
    assert [work(3), work(4)] == [start.work_id for start in decided.starts]


@pytest.mark.item("C14")
def test_the_planner_runs_without_settings_models_clock_and_database() -> None:
    package = Path(django_workpool.__file__).parent
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}

    done = subprocess.run(
        [sys.executable, "-c", BARE],
        env=environment | {"PYTHONPATH": str(package.parent)},
        check=True,
        capture_output=True,
        text=True,
    )

    found = json.loads(done.stdout)
    assert {
        "starts": 1,
        "clocks": [],
        "configured": False,
        "apps_ready": False,
        "connected": [],
        "ours": ["choices", "planner"],
    } == found


# A clock that is asked raises: the planner must not look at one.
BARE = """
import json, sys
from datetime import UTC, datetime
from uuid import UUID
import time

asked = []
now = datetime(2026, 2, 28, tzinfo=UTC)
for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter"):
    setattr(time, name, lambda name=name: asked.append(name))

from django_workpool.planner.plan import plan
from django_workpool.planner.explain import explained
from django_workpool.planner.snapshot import Due, Executing, PoolOptions, Snapshot

del asked[:]
work = Due(1, UUID(int=1), "app.send", 0, now)
snapshot = Snapshot(
    pool=PoolOptions("pool", 1, None, "WARNING"),
    generation=1,
    due=(work,),
    workers=(Executing(UUID(int=2), {"app.send": "thread"}, 1, 1),),
)
starts = plan(snapshot, now).starts
explained(snapshot, now, work)

from django.apps import apps
from django.conf import settings
from django.db import connections

ours = {n.split(".")[1] for n in sys.modules if n.startswith("django_workpool.")}
print(json.dumps({
    "starts": len(starts),
    "clocks": asked,
    "configured": settings.configured,
    "apps_ready": apps.ready,
    "connected": list(vars(connections._connections).keys() & {"default"}),
    "ours": sorted(ours),
}))
"""


def test_hand_outs_rise_within_a_plan_and_from_one_generation_to_the_next() -> None:
    snapshot = Snapshot(
        pool=pool(), generation=5, due=(due(1), due(2)), workers=(executing(),)
    )

    first = [start.hand_out for start in plan(snapshot, NOW).starts]
    later = [
        start.hand_out for start in plan(replace(snapshot, generation=6), NOW).starts
    ]

    assert [5 << HAND_OUT_BITS, (5 << HAND_OUT_BITS) + 1] == first
    assert first[-1] < later[0]


def test_a_pass_starts_a_bounded_number_of_works_and_passes_again() -> None:
    rows = tuple(due(number) for number in range(1, MAX_STARTS + 2))
    snapshot = Snapshot(
        pool=pool(max_parallelism=10_000),
        generation=1,
        due=rows,
        workers=(executing(threads=10_000),),
    )

    decided = plan(snapshot, NOW)

    assert MAX_STARTS == len(decided.starts)
    assert "running" == decided.next.state


def test_works_go_to_the_worker_with_the_most_room() -> None:
    snapshot = Snapshot(
        pool=pool(),
        generation=1,
        due=(due(1), due(2), due(3)),
        workers=(executing(0, threads=1), executing(1, threads=2)),
    )

    decided = plan(snapshot, NOW)

    given = [start.worker_id for start in decided.starts]
    assert [WORKERS[1], WORKERS[0], WORKERS[1]] == given


@pytest.mark.parametrize(
    ("kind", "deaths", "begun", "goes_back"),
    [
        ("action", 0, False, True),
        ("action", 0, True, False),
        ("mutation", 0, True, True),
        ("mutation", 2, True, True),
        ("mutation", 3, True, False),
    ],
    ids=[
        "not-begun",
        "begun-action",
        "mutation-first-death",
        "mutation-third-death",
        "mutation-fourth-death",
    ],
)
def test_a_work_of_a_dead_worker_is_lost_only_when_it_had_begun_and_is_no_mutation(
    kind: str, deaths: int, begun: bool, goes_back: bool
) -> None:
    row = in_progress(1, lane=1, worker_id=ENDED[0])
    marks = frozenset({(row.work_id, row.hand_out)} if begun else ())
    snapshot = Snapshot(
        pool=pool(),
        generation=1,
        running=(row,),
        ended=(Ended(ENDED[0], "killed", marks),),
        lost={row.work_id: Lost(kind, deaths)},
    )

    decided = plan(snapshot, NOW)

    assert goes_back == bool(decided.given_back)
    assert goes_back != bool(decided.lost)


def test_a_row_that_somebody_holds_is_left_to_a_pass_soon() -> None:
    row = in_progress(1, lane=1)
    snapshot = Snapshot(
        pool=pool(),
        generation=1,
        running=(row,),
        completions=(Completion(1, row.work_id, row.hand_out, "success"),),
        cancelations=(Cancelation(1, row.work_id, None),),
        unavailable=frozenset({row.work_id}),
    )

    decided = plan(snapshot, NOW)

    assert decided.is_empty
    assert "scheduled" == decided.next.state
    assert decided.next.run_at is not None
    assert timedelta(0) < decided.next.run_at - NOW < timedelta(seconds=1)


def test_a_pause_that_ends_by_itself_wakes_the_loop_at_its_end() -> None:
    until = NOW + timedelta(hours=1)
    snapshot = Snapshot(
        pool=pool(paused=True, paused_until=until),
        generation=1,
        due=(due(1),),
        workers=(executing(),),
    )

    decided = plan(snapshot, NOW)

    assert decided.is_empty
    assert ("scheduled", until) == (decided.next.state, decided.next.run_at)
    assert [work(1)] == [start.work_id for start in plan(snapshot, until).starts]
