"""Must hold: what ``kill -9`` of a worker costs, with the journal as the witness."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from django_workpool.db import clock
from django_workpool.models import Worker
from tests.app import functions
from tests.app.models import Effect
from tests.conformance.pools import fresh
from tests.conformance.stumbling import NO_NETS, wait_reached
from tests.journal import ids, until
from tests.live import kill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

PATIENCE = 30
# What recovery by the own runner may take, from the death to the terminal record.
RECOVERY = timedelta(seconds=1)


def _ends(pool: Workpool, works: list[Work]) -> list[str | None]:
    return [pool.wait(work, timeout=PATIENCE).completion_status for work in works]


def _holders(pool: Workpool) -> dict[UUID, int]:
    """Return which process holds which work."""
    pids = dict(Worker.objects.using("default").values_list("pk", "pid"))
    return {one.work_id: pids[one.worker_id] for one in pool.running()}


def _effects(work: Work) -> int:
    return Effect.objects.filter(work_id=work.pk).count()


def test_begun_actions_end_as_lost_within_a_second_and_the_others_go_on(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=6)
    runner = live("--processes", "3", **NO_NETS)
    names = [f"held-{n}" for n in range(6)]
    works = pool.enqueue_action_batch(functions.hold, [{"name": n} for n in names])
    journal.wait_begun(*names)
    holders = _holders(pool)
    victim = holders[works[0].pk]
    lost = [work for work in works if holders[work.pk] == victim]
    kept = [work for work in works if holders[work.pk] != victim]
    (worker,) = [one for one in runner.workers() if one.pid == victim]

    killed_at = clock.now("default")
    died_at = kill(worker)
    ends = [pool.wait(work, timeout=PATIENCE) for work in lost]
    journal.release(*names)
    kept_ends = _ends(pool, kept)

    assert [("error", 0)] * len(lost) == [
        (end.completion_status, end.previous_attempts) for end in ends
    ]
    assert {"WorkerLostError"} == {pool.result(work).error_type for work in lost}
    took = [end.completed_at - killed_at for end in ends if end.completed_at]
    assert len(lost) == len(took)
    assert max(took) <= RECOVERY
    assert ["success"] * len(kept) == kept_ends
    assert len(kept) >= 3
    # The witness: each began once, also those that were lost.
    assert sorted(ids(works)) == sorted(journal.begins())
    assert 6 == journal.peak(pool.name, {victim: died_at})


def test_works_that_had_not_begun_run_later_in_their_order(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    points = "lane.before_next=wait:lane*1@worker,giveback.before=wait:back@worker"
    pool = fresh(max_parallelism=5)
    runner = live("--threads", "5", WORKPOOL_FAILPOINTS=points, **NO_NETS)
    begun = pool.enqueue_action(functions.hold)
    journal.wait_begun()
    assigned = pool.enqueue_action_batch(functions.echo, [None] * 4)
    behind = pool.enqueue_action_batch(functions.echo, [None] * 3)
    wait_reached(journal, "back")
    before = [one and one.kind for one in pool.status_batch([*assigned, *behind])]
    (worker,) = runner.workers()

    kill(worker)
    journal.release("lane", "back")
    lost = pool.wait(begun, timeout=PATIENCE)
    ends = [pool.wait(work, timeout=PATIENCE) for work in [*assigned, *behind]]

    assert ["in_progress"] * 4 + ["pending"] * 3 == before
    assert "error" == lost.completion_status
    assert [("success", 0)] * 7 == [
        (end.completion_status, end.previous_attempts) for end in ends
    ]
    assert sorted(ids([begun, *assigned, *behind])) == sorted(journal.begins())
    assert not journal.overlaps()


def test_a_mutation_killed_in_its_body_leaves_nothing_and_is_started_again(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    runner = live(**NO_NETS)
    held = pool.enqueue_mutation(functions.mutation_hold)
    journal.wait_begun()
    (worker,) = runner.workers()

    kill(worker)
    until(lambda: len(journal.lines("begin")) == 2, "a second begin")
    between = _effects(held)
    journal.release()
    end = pool.wait(held, timeout=PATIENCE)

    assert 0 == between
    assert ("success", 0) == (end.completion_status, end.previous_attempts)
    assert 1 == _effects(held)
    # The second begin came after the death of the process of the first.
    first, second = journal.lines("begin")
    assert first["pid"] == worker.pid != second["pid"]
    assert [None] == [one.end for one in journal.intervals() if one.pid == worker.pid]


@pytest.mark.parametrize(
    ("point", "begins", "outcome", "effects"),
    [
        ("mutation.before_lock", 4, "error", 0),
        ("mutation.before_commit", 4, "error", 0),
        ("mutation.after_commit", 1, "success", 1),
    ],
)
def test_a_mutation_whose_process_dies_around_its_commit_has_no_effect_or_one(
    point: str,
    begins: int,
    outcome: str,
    effects: int,
    live: Callable[..., LiveRunner],
    journal: Journal,
) -> None:
    pool = fresh()
    live(WORKPOOL_FAILPOINTS=f"{point}=kill@worker", **NO_NETS)

    work = pool.enqueue_mutation(functions.effect)
    (end,) = _ends(pool, [work])

    assert outcome == end
    assert effects == _effects(work)
    assert begins == len(journal.lines("begin"))
    assert not journal.overlaps()


@pytest.mark.parametrize(
    ("point", "outcome"),
    [("complete.before_write", "error"), ("complete.after_commit", "success")],
)
def test_an_action_whose_process_dies_around_its_completion_runs_once(
    point: str, outcome: str, live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    live(WORKPOOL_FAILPOINTS=f"{point}=kill@worker", **NO_NETS)

    work = pool.enqueue_action(functions.echo, {"value": "once"})
    (end,) = _ends(pool, [work])

    assert outcome == end
    assert ids([work]) == journal.begins()
    assert [{"success": "once"}.get(outcome)] == [pool.result(work).return_value]


def test_a_begun_action_is_lost_and_not_run_again_though_its_marks_are_gone(
    live: Callable[..., LiveRunner], journal: Journal, tmp_path: Path
) -> None:
    """R21: what cannot be told had begun; and the next worker finds a directory."""
    pool = fresh(max_parallelism=1)
    runner = live()
    held = pool.enqueue_action(functions.hold)
    journal.wait_begun()
    (worker,) = runner.workers()
    shutil.rmtree(tmp_path / "state")

    kill(worker)
    end = pool.wait(held, timeout=30)
    journal.release()
    after = pool.wait(pool.enqueue_action(functions.echo), timeout=30)

    assert ("error", "success") == (end.completion_status, after.completion_status)
    assert 1 == journal.begins().count(str(held.pk))
