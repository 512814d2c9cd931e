"""D. Mutations: effect and completion are one, and exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db.models import F

from django_workpool.models import CompletedWork, InProgressWork, PendingCompletion
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.app.models import Effect
from tests.conformance.pools import fresh
from tests.conformance.sessions import beside
from tests.conformance.stumbling import armed, wait_reached
from tests.conformance.threads import elsewhere
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool.models import Work
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def effects(work: Work) -> int:
    """Return how many effects of a work a reader sees."""
    return Effect.objects.using("default").filter(work_id=work.pk).count()


def completions(work: Work) -> int:
    """Return how many completions of a work a reader sees."""
    return PendingCompletion.objects.using("default").filter(work_id=work.pk).count()


def run_assigned() -> None:
    """Run what passes gave to the inline worker, without another pass."""
    inline_executor().run()


@pytest.mark.item("D7")
def test_a_mutation_killed_before_its_commit_takes_effect_once_in_the_end(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    live()

    work = pool.enqueue_mutation(functions.mutation_die_once, {"name": "once"})
    end = pool.wait(work, timeout=60)

    assert ("success", 0) == (end.completion_status, end.previous_attempts)
    assert 1 == effects(work)
    assert ids([work, work]) == journal.begins(pool.name)


@pytest.mark.item("D7")
@pytest.mark.parametrize(
    "point",
    ["mutation.before_body", "mutation.after_lock", "mutation.before_commit"],
)
def test_a_mutation_killed_at_any_point_before_its_commit_takes_effect_once(
    live: Callable[..., LiveRunner], journal: Journal, point: str
) -> None:
    pool = fresh(max_parallelism=1)
    # Each worker lets one mutation pass and dies in its second.
    live(WORKPOOL_FAILPOINTS=f"{point}=kill*1@worker")

    works = pool.enqueue_mutation_batch(functions.effect, [{}] * 3)
    ends = [pool.wait(work, timeout=60) for work in works]

    assert ["success"] * 3 == [end.completion_status for end in ends]
    assert [1, 1, 1] == [effects(work) for work in works]
    assert [] == journal.overlaps()


@pytest.mark.item("D7")
def test_a_mutation_killed_after_its_commit_is_not_run_again(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    live(WORKPOOL_FAILPOINTS="mutation.after_commit=kill@worker")

    work = pool.enqueue_mutation(functions.effect)
    end = pool.wait(work, timeout=60)

    assert "success" == end.completion_status
    assert "done" == pool.result(work).return_value
    assert 1 == effects(work)
    assert ids([work]) == journal.begins(pool.name)


@pytest.mark.item("D7")
def test_a_mutation_that_kills_its_process_every_time_is_lost_after_three_more_starts(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)
    live()

    work = pool.enqueue_mutation(functions.mutation_die)
    after = pool.enqueue_mutation(functions.effect)
    pool.wait(work, timeout=60)
    end = pool.wait(after, timeout=60)

    result = pool.result(work)
    assert ("error", "WorkerLostError") == (result.kind, result.error_type)
    assert "SIGKILL" in result.error
    assert ids([work] * 4 + [after]) == journal.begins(pool.name)
    assert 0 == effects(work)
    assert "success" == end.completion_status


@pytest.mark.item("D8")
def test_a_mutation_that_raises_leaves_nothing_but_its_error() -> None:
    pool = fresh()
    work = pool.enqueue_mutation(functions.effect, {"fails": True})

    drain(pool.name)

    result = pool.result(work)
    assert ("error", "ValueError", "rolled back") == (
        result.kind,
        result.error_type,
        result.error,
    )
    assert "in effect" in result.traceback
    assert 0 == effects(work)


def taken_away(work: Work) -> None:
    """Delete the row in progress."""
    InProgressWork.objects.using("default").filter(pk=work.pk).delete()


def given_to_another(work: Work) -> None:
    """Let the row in progress carry the number of another hand-out."""
    rows = InProgressWork.objects.using("default").filter(pk=work.pk)
    rows.update(hand_out=F("hand_out") + 1)


@pytest.mark.item("D9")
@pytest.mark.parametrize("change", [taken_away, given_to_another])
def test_a_mutation_whose_hand_out_is_over_rolls_back_and_completes_nothing(
    journal: Journal,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Work], None],
) -> None:
    pool = fresh()
    work = pool.enqueue_mutation(functions.effect)
    run_pass(pool.name)
    executor = inline_executor()
    (assignment,) = executor.fetch()
    elsewhere(lambda: change(work))

    ending = executor.execute(assignment)

    assert ending is None
    assert ids([work]) == journal.begins(pool.name)
    assert (0, 0) == (effects(work), completions(work))
    assert "rolled back" in caplog.text


@pytest.mark.item("D9")
@pytest.mark.vendor("postgresql")
@pytest.mark.parametrize("change", [taken_away, given_to_another])
def test_a_mutation_whose_hand_out_ends_while_it_runs_rolls_back(
    journal: Journal, change: Callable[[Work], None]
) -> None:
    # SQLite has one writer: there nobody can take the row away meanwhile.
    pool = fresh()
    work = pool.enqueue_mutation(functions.effect)
    run_pass(pool.name)

    with (
        armed("mutation.before_lock=wait:fence", journal),
        beside(run_assigned) as ran,
    ):
        wait_reached(journal, "fence")
        change(work)
        journal.release("fence")
        ran()

    assert ids([work]) == journal.begins(pool.name)
    assert (0, 0) == (effects(work), completions(work))


@pytest.mark.item("D9")
@pytest.mark.vendor("postgresql")
def test_a_mutation_behind_its_fence_is_left_alone_by_a_pass(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_mutation(functions.effect)
    run_pass(pool.name)
    inline = inline_executor()

    with (
        armed("mutation.after_lock=wait:locked", journal),
        beside(run_assigned) as ran,
    ):
        wait_reached(journal, "locked")
        pool.cancel(work)
        held = run_pass(pool.name, with_worker=False)
        journal.release("locked")
        ran()
    drain(pool.name)

    assert held is not None
    assert held.plan.is_empty
    assert "scheduled" == held.next.state
    assert inline.worker.pk == CompletedWork.objects.using("default").get().worker_id
    assert "success" == pool.status(work).completion_status
    assert 1 == effects(work)
