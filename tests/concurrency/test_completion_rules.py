"""Protocol R23 to R25: how the end of a work reaches its pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import InterfaceError, connections

from django_workpool.db import clock
from django_workpool.engine import complete, workers
from django_workpool.models import (
    CompletedWork,
    PendingCompletion,
)
from django_workpool.runner.outbox import Outbox
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions, rule_functions
from tests.app.models import Effect
from tests.concurrency.sessions import assignments, standing
from tests.conformance.begun import begin
from tests.conformance.pools import fresh
from tests.conformance.sessions import statements
from tests.conformance.stumbling import armed
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool.engine.complete import Assignment
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])

LOST = "raise:django.db.utils.InterfaceError"


# --- R23 ------------------------------------------------------------------------------


def test_r23_fence_and_completion_are_one_statement_behind_the_body() -> None:
    pool = fresh()
    pool.enqueue_mutation(functions.effect)
    (run,) = begin(pool)
    executor = inline_executor()

    with statements() as executed:
        executor.execute(run)

    inserts = [sql for sql in executed if sql.startswith("INSERT")]
    body, fence = inserts
    assert "tests_app_effect" in body
    assert "workpool_pending_completion" in fence
    assert "FROM workpool_in_progress_work" in fence
    assert executed.index(fence) > executed.index(body)
    has_locks = connections["default"].vendor != "sqlite"
    assert has_locks == fence.endswith("FOR UPDATE")


@pytest.mark.vendor("postgresql")
def test_r23_a_mutation_whose_work_ran_elsewhere_meanwhile_leaves_nothing(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_mutation(functions.effect)
    (run,) = begin(pool)
    former = inline_executor()

    with standing(
        lambda: former.execute(run), "mutation.before_lock", journal
    ) as goes_on:
        # It is taken for dead, and all that it held for begun.
        workers.ended(
            "default", former.worker.pk, is_dead=True, last_exit="lost", begun=None
        )
        # One gives it back, the next one starts it elsewhere.
        run_pass(pool.name)
        (again,) = begin(pool)
        late = goes_on()
    inline_executor().execute(again)
    drain(pool.name)

    assert late is None
    assert run.hand_out < again.hand_out
    assert "success" == pool.status(work).completion_status
    assert 1 == Effect.objects.using("default").count()


# --- R24 ------------------------------------------------------------------------------


def boxed(runs: list[Assignment]) -> tuple[Outbox, list[list[int]]]:
    """Return an outbox with the ends of *runs*, and what it says is committed."""
    told: list[list[int]] = []
    outbox = Outbox(
        "default",
        ring=lambda: None,
        written=lambda endings: told.append(
            [end.assignment.hand_out for end in endings]
        ),
    )
    for run in runs:
        outbox.put(
            complete.canceled(run, inline_executor().worker.pk, clock.now("default"))
        )
    return outbox, told


def written() -> list[int]:
    """Return the hand-outs of the committed completions."""
    rows = PendingCompletion.objects.using("default").order_by("id")
    return list(rows.values_list("hand_out", flat=True))


def test_r24_many_completions_are_one_batch_and_told_after_their_commit() -> None:
    runs = assignments(3)
    outbox, told = boxed(runs)
    numbers = [run.hand_out for run in runs]

    with statements() as executed:
        outbox.flush()

    inserts = [sql for sql in executed if sql.startswith("INSERT")]
    assert 1 == len(inserts)
    assert [numbers] == told
    assert numbers == written()
    assert 0 == len(outbox)


@pytest.mark.parametrize("point", ["complete.before_write", "complete.mid_batch"])
def test_r24_completions_are_kept_until_they_are_committed(
    point: str, journal: Journal
) -> None:
    runs = assignments(2)
    outbox, told = boxed(runs)

    with armed(f"{point}={LOST}", journal), pytest.raises(InterfaceError):
        outbox.flush()
    before = (len(outbox), written(), list(told))
    outbox.flush()

    assert (2, [], []) == before
    assert [[run.hand_out for run in runs]] == told
    assert [run.hand_out for run in runs] == written()


def test_r24_completions_whose_commit_was_not_heard_are_written_again_and_count_once(
    journal: Journal,
) -> None:
    runs = assignments(2)
    outbox, told = boxed(runs)

    with armed(f"complete.after_commit={LOST}", journal), pytest.raises(InterfaceError):
        outbox.flush()
    before = (len(outbox), len(told))
    outbox.flush()
    twice = written()
    drain()

    assert (2, 0) == before
    assert sorted([run.hand_out for run in runs] * 2) == sorted(twice)
    assert 2 == CompletedWork.objects.using("default").count()
    assert 0 == PendingCompletion.objects.using("default").count()


def test_r24_a_worker_that_often_loses_its_session_gives_up_no_outcome(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live(WORKPOOL_FAILPOINTS=f"complete.before_write={LOST}%0.5@worker")
    pool = fresh(max_parallelism=4)

    works = pool.enqueue_action_batch(functions.echo, [{"value": n} for n in range(12)])
    ends = [pool.wait(work, timeout=60) for work in works]

    assert {"success"} == {one.completion_status for one in ends}
    assert list(range(12)) == [pool.result(work).return_value for work in works]
    assert sorted(ids(works)) == sorted(journal.begins(pool.name))


# --- R25 ------------------------------------------------------------------------------


def test_r25_a_hook_runs_in_its_lane_while_the_slot_is_given_on(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live("--threads", "2")
    pool = fresh(max_parallelism=1)

    first = pool.enqueue_mutation(rule_functions.hold_in_hook, {"name": "hook"})
    journal.wait_begun("hook")
    second = pool.enqueue_action(functions.echo)
    end = pool.wait(second, timeout=30)
    ended = [line["line"] for line in journal.lines("hook_end")]
    journal.release("hook")
    journal.wait_for("hook_end")

    assert "success" == end.completion_status
    assert [] == ended
    body = pool.result(first).return_value
    (hook,) = journal.lines("hook")
    assert body == {"pid": hook["pid"], "thread": hook["thread"]}
