"""Workers killed at random under load; the journal and the tables are the witnesses."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from django_workpool.models import Worker
from tests.app import functions
from tests.app.models import Effect
from tests.conformance.pools import fresh
from tests.journal import until
from tests.live import kill

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

SEED = 20261130
KILLS = 8


def _serving(runner: LiveRunner) -> list[int]:
    """Return the pids of living workers that serve."""
    ready = Worker.objects.using("default").filter(state="ready")
    living = {worker.pid for worker in runner.workers()}
    return sorted(living & set(ready.values_list("pid", flat=True)))


def _has_begun(runner: LiveRunner, journal: Journal, wanted: int) -> bool:
    return len(journal.begins()) >= wanted and bool(_serving(runner))


def _kill_some(runner: LiveRunner, journal: Journal, every: int) -> dict[int, int]:
    """Kill a serving worker after every so many begins; return pid to time of death."""
    chance = random.Random(SEED)
    deaths = {}
    for number in range(1, KILLS + 1):
        wanted = number * every
        until(partial(_has_begun, runner, journal, wanted), f"{wanted} begins")
        pid = chance.choice(_serving(runner))
        victim = next(one for one in runner.workers() if one.pid == pid)
        deaths[pid] = kill(victim)
    return deaths


def test_killed_workers_lose_only_what_had_begun_and_run_nothing_twice(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    """Must hold: nothing lost without a record, nothing twice, no limit passed."""
    actions = fresh("actions", max_parallelism=7)
    mutations = fresh("mutations", max_parallelism=3)
    runner = live("--processes", "3")
    works = actions.enqueue_action_batch(functions.sleep, [{"seconds": 0.02}] * 500)
    changes = mutations.enqueue_mutation_batch(functions.effect, [{}] * 200)

    deaths = _kill_some(runner, journal, every=60)
    # Each has a terminal record, whatever became of it.
    ends = [actions.wait(work, timeout=60).completion_status for work in works]
    outcomes = [mutations.wait(work, timeout=60).completion_status for work in changes]

    begun = Counter(journal.begins(actions.name))
    lost = [work for work, end in zip(works, ends, strict=True) if end == "error"]
    assert {1} == set(begun.values())
    assert [] == journal.overlaps()
    # Each death costs what its worker had begun, seven at most.
    assert len(lost) <= 7 * KILLS
    assert {"WorkerLostError"} >= {actions.result(work).error_type for work in lost}
    assert 7 == journal.peak(actions.name, deaths)
    assert 3 >= journal.peak(mutations.name, deaths)
    assert {"success"} == set(outcomes)
    effects = Effect.objects.values_list("work_id", flat=True)
    assert sorted(work.pk for work in changes) == sorted(effects)
    assert 0 == runner.stop()
