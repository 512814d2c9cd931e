"""Protocol R18 to R20: fetched, given back, canceled, begun."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from django.db import InterfaceError

from django_workpool.choices import CompletionStatus
from django_workpool.db import clock
from django_workpool.engine import complete
from django_workpool.models import (
    CompletedWork,
    InProgressWork,
    PendingCancelation,
    PendingStart,
)
from django_workpool.runner import marks
from django_workpool.runner.intake import Held, Intake, Stage
from django_workpool.runner.lanes import Lanes
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.concurrency.sessions import assignments, execution, standing
from tests.conformance.begun import begin
from tests.conformance.pools import fresh
from tests.conformance.stumbling import armed, wait_reached
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from django_workpool.engine.complete import Ending
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])

LOST = "raise:django.db.utils.InterfaceError"


class Desk:
    """The intake of the inline worker; what it lets through lies in lists."""

    def __init__(self, submit: Callable[[Held], None] | None = None) -> None:
        """Let works through to *submit*, or keep them."""
        self.submitted: list[Held] = []
        self.ended: list[Ending] = []
        self.intake = Intake(
            using="default",
            worker_id=inline_executor().worker.pk,
            now=clock.CarriedClock("default").now,
            submit=submit or self.submitted.append,
            end=self.ended.append,
        )


@contextmanager
def lanes(path: Path, ended: list[Ending | None], journal: Journal) -> Iterator[Lanes]:
    """Open the lanes of the inline worker, which stand before they begin anything."""
    found = Lanes(
        using="default",
        worker_id=inline_executor().worker.pk,
        threads=1,
        marks=marks.Marks(path, 8),
        now=clock.CarriedClock("default").now,
        end=lambda held, ending: ended.append(ending),
    )
    with armed("lane.before_next=wait:lane", journal):
        try:
            yield found
        finally:
            journal.release("lane")
            found.stop()


def hand_out(work_id: UUID) -> int | None:
    """Return the number under which a work is in progress."""
    rows = InProgressWork.objects.using("default").filter(pk=work_id)
    return rows.values_list("hand_out", flat=True).first()


# --- R18 ------------------------------------------------------------------------------


def test_r18_what_has_not_begun_goes_back_uncounted_and_to_its_old_place(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    # Lanes stand still before they take what was fetched.
    live(WORKPOOL_FAILPOINTS="lane.before_next=wait:lane@worker")
    pool = fresh(max_parallelism=1)

    first, second = pool.enqueue_action_batch(functions.echo, [None, None])
    until(lambda: hand_out(first.pk), "the first hand-out")
    number = hand_out(first.pk) or 0
    until(lambda: (hand_out(first.pk) or 0) > number, "another hand-out of it")
    begun, behind = journal.begins(), hand_out(second.pk)
    journal.release("lane")
    ends = [pool.wait(work, timeout=30) for work in (first, second)]

    assert ([], None) == (begun, behind)
    assert [("success", 0)] * 2 == [
        (one.completion_status, one.previous_attempts) for one in ends
    ]
    assert ids([first, second]) == journal.begins(pool.name)
    records = CompletedWork.objects.using("default").values_list("attempts", flat=True)
    assert [1, 1] == list(records)


def test_r18_what_was_fetched_a_moment_ago_is_not_given_back() -> None:
    pool = fresh()
    pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    desk = Desk()
    desk.intake.fetch()

    desk.intake.give_back()
    waits = desk.intake.waiting_since()
    desk.intake.give_back(everything=True)

    assert waits is not None
    assert desk.intake.waiting_since() is None
    assert 1 == PendingStart.objects.using("default").count()


# --- R19 ------------------------------------------------------------------------------


def test_r19_a_poll_that_still_shows_what_was_returned_does_not_bring_it_back(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    desk = Desk()
    desk.intake.fetch()
    (held,) = desk.submitted

    with armed(f"giveback.before={LOST}", journal), pytest.raises(InterfaceError):
        desk.intake.give_back(everything=True)
    desk.intake.fetch()
    seen_twice, may_begin = len(desk.submitted), held.claim(Stage.BEGUN)
    desk.intake.give_back()
    kind = pool.status(work).kind
    desk.intake.fetch()
    forgotten = dict(desk.intake.held)
    run_pass(pool.name)
    desk.intake.fetch()

    assert (1, False) == (seen_twice, may_begin)
    assert ("pending", {}) == (kind, forgotten)
    assert [work.pk, work.pk] == [one.assignment.work_id for one in desk.submitted]
    assert held.assignment.hand_out < desk.submitted[1].assignment.hand_out


def test_r19_a_give_back_whose_reply_was_lost_lets_the_work_begin_once(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    desk = Desk()
    desk.intake.fetch()

    with armed(f"giveback.after={LOST}", journal), pytest.raises(InterfaceError):
        desk.intake.give_back(everything=True)
    run_pass(pool.name)
    desk.intake.fetch()
    desk.intake.give_back()

    assert [False, True] == [held.claim(Stage.BEGUN) for held in desk.submitted]
    assert hand_out(work.pk) == desk.submitted[1].assignment.hand_out


def test_r19_begin_and_give_back_are_never_both_done(tmp_path: Path) -> None:
    rounds = 300
    (run, *_) = assignments(1)
    now = time.monotonic()
    hands = [Held(run, asked_at=now, fetched_at=now) for _ in range(rounds)]
    gate = Barrier(2)

    def claim(stage: Stage) -> list[bool]:
        found = []
        for held in hands:
            gate.wait()
            found.append(held.claim(stage))
        return found

    with ThreadPoolExecutor(2) as others:
        begun = others.submit(claim, Stage.BEGUN)
        returned = others.submit(claim, Stage.RETURNED)

    assert [1] * rounds == [
        a + b for a, b in zip(begun.result(), returned.result(), strict=True)
    ]


def test_r19_a_lane_that_was_about_to_begin_does_not_after_a_give_back(
    journal: Journal, tmp_path: Path
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    ended: list[Ending | None] = []
    path = tmp_path / "marks"

    with lanes(path, ended, journal) as opened:
        desk = Desk(opened.submit)
        desk.intake.fetch()
        wait_reached(journal, "lane")
        desk.intake.give_back(everything=True)
        kind = pool.status(work).kind

    assert "pending" == kind
    assert [] == ended
    assert [] == marks.read(path)
    assert [] == journal.begins()


# --- R20 ------------------------------------------------------------------------------


def test_r20_a_work_canceled_before_the_fetch_does_not_begin(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    pool.cancel(work)
    desk = Desk()

    desk.intake.fetch()

    assert [] == desk.submitted
    assert [CompletionStatus.CANCELED] == [one.status for one in desk.ended]


def test_r20_a_work_canceled_between_fetch_and_begin_does_not_begin(
    journal: Journal, tmp_path: Path
) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    ended: list[Ending | None] = []

    with lanes(tmp_path / "marks", ended, journal) as opened:
        desk = Desk(opened.submit)
        desk.intake.fetch()
        wait_reached(journal, "lane")
        pool.cancel(work)
        desk.intake.fetch()
        desk.intake.give_back(everything=True)
    complete.write("default", desk.ended)
    drain(pool.name)

    assert [CompletionStatus.CANCELED] == [one.status for one in desk.ended]
    assert "canceled" == pool.status(work).completion_status
    assert ([], []) == (ended, journal.begins())


def test_r20_a_flagged_work_is_never_given_back(journal: Journal) -> None:
    pool = fresh()
    work, other = pool.enqueue_action_batch(functions.echo, [None, None])
    run, other_run = begin(pool)
    pool.cancel(work)
    run_pass(pool.name)

    complete.give_back("default", [run.key, other_run.key])

    assert ["in_progress", "pending"] == [pool.status(w).kind for w in (work, other)]


def test_r20_a_give_back_that_came_before_the_flag_loses_no_request() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    desk = Desk()
    desk.intake.fetch()
    pool.cancel(work)

    # The worker has not looked since the request.
    desk.intake.give_back(everything=True)
    drain(pool.name)

    assert "canceled" == pool.status(work).completion_status


@pytest.mark.vendor("postgresql")
def test_r20_a_request_stays_until_it_took_effect(journal: Journal) -> None:
    pool = fresh()
    pool.enqueue_mutation(functions.effect)
    (run,) = begin(pool)

    with standing(execution(run), "mutation.after_lock", journal) as goes_on:
        pool.cancel(run.work_id)
        run_pass(pool.name)
        waiting = PendingCancelation.objects.using("default").count()
        goes_on()
    run_pass(pool.name)

    assert 1 == waiting
    assert 0 == PendingCancelation.objects.using("default").count()
    assert "success" == pool.status(run.work_id).completion_status
