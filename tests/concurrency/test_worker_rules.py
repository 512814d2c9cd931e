"""Protocol, sections 3, 4 and 6: the interleavings inside one worker."""

from __future__ import annotations

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.db import InterfaceError, connections

from django_workpool.choices import CompletionStatus
from django_workpool.db import clock
from django_workpool.engine import complete, workers
from django_workpool.models import (
    CompletedWork,
    InProgressWork,
    PendingCancelation,
    PendingCompletion,
    PendingStart,
)
from django_workpool.runner import marks
from django_workpool.runner.channel import Channel
from django_workpool.runner.intake import Held, Intake, Stage
from django_workpool.runner.lanes import Lanes
from django_workpool.runner.outbox import Outbox
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions, rule_functions
from tests.app.models import Effect
from tests.children import child_environment
from tests.concurrency.sessions import standing
from tests.conformance.begun import begin
from tests.conformance.pools import fresh
from tests.conformance.sessions import statements
from tests.conformance.stumbling import armed, wait_reached
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from django_workpool import Workpool
    from django_workpool.engine.complete import Assignment, Ending
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

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
def lanes(
    path: Path, ended: list[Ending | None], journal: Journal
) -> Iterator[Lanes]:
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


# --- R18 ----------------------------------------------------------------------------


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


# --- R19 ----------------------------------------------------------------------------


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
    hands = [Held(run, fetched_at=0) for _ in range(rounds)]
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


def assignments(number: int) -> list[Assignment]:
    """Return so many works that were handed to the inline worker."""
    pool = fresh()
    pool.enqueue_action_batch(functions.echo, [None] * number)
    return begin(pool)


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


# --- R20 ----------------------------------------------------------------------------


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
    executor = inline_executor()

    def execution() -> None:
        executor.execute(run)

    with standing(execution, "mutation.after_lock", journal) as goes_on:
        pool.cancel(run.work_id)
        run_pass(pool.name)
        waiting = PendingCancelation.objects.using("default").count()
        goes_on()
    run_pass(pool.name)

    assert 1 == waiting
    assert 0 == PendingCancelation.objects.using("default").count()
    assert "success" == pool.status(run.work_id).completion_status


# --- R21 ----------------------------------------------------------------------------

_MARKING = """
import os, signal, sys
from pathlib import Path
from uuid import UUID
from django_workpool.runner.marks import Marks
marks = Marks(Path(sys.argv[1]), 4)
ended, next_, finished = [(UUID(text), 7) for text in sys.argv[2:]]
marks.set(finished)
marks.clear(finished)
# One lane: the first has ended, its completion is not committed, the second begins.
marks.set(ended)
marks.set(next_)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_r21_a_begin_does_not_overwrite_the_mark_of_the_work_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "marks"
    ended, following, finished = uuid4(), uuid4(), uuid4()

    code = subprocess.run(
        [sys.executable, "-c", _MARKING, str(path), *map(str, (ended, following, finished))],
        check=False,
        env=child_environment(),
    ).returncode

    assert -9 == code
    assert {(ended, 7), (following, 7)} == set(marks.read(path) or [])


def test_r21_a_begin_waits_while_no_place_for_its_mark_is_free(tmp_path: Path) -> None:
    ring = marks.Marks(tmp_path / "marks", 1)
    first, second = (uuid4(), 1), (uuid4(), 2)
    ring.set(first)

    with ThreadPoolExecutor(1) as other:
        begins = other.submit(ring.set, second)
        before = (begins.done(), marks.read(ring.path))
        ring.clear(first)
        begins.result(10)
    after = marks.read(ring.path)
    ring.close()

    assert (False, [first]) == before
    assert [second] == after


@pytest.mark.parametrize(
    ("point", "outcome", "begins"),
    [
        pytest.param("mark.before", "success", 1, id="not-begun-runs-later"),
        pytest.param("mark.after", "error", 0, id="marked-counts-as-begun"),
        pytest.param("complete.before_write", "error", 1, id="ended-but-not-written"),
        pytest.param("complete.after_commit", "success", 1, id="written-mark-remains"),
    ],
)
def test_r21_a_killed_worker_has_begun_exactly_what_it_marked(
    live: Callable[..., LiveRunner],
    journal: Journal,
    point: str,
    outcome: str,
    begins: int,
) -> None:
    # Each worker lets one work pass, and dies at its second.
    live(WORKPOOL_FAILPOINTS=f"{point}=kill*1@worker")
    pool = fresh(max_parallelism=1)

    first = pool.enqueue_action(functions.echo)
    pool.wait(first, timeout=30)
    second = pool.enqueue_action(functions.echo)
    end = pool.wait(second, timeout=30)

    assert (outcome, 0) == (end.completion_status, end.previous_attempts)
    assert [str(first.pk)] + [str(second.pk)] * begins == journal.begins(pool.name)


# --- R23 ----------------------------------------------------------------------------


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

    with standing(lambda: former.execute(run), "mutation.before_lock", journal) as goes_on:
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


# --- R24 ----------------------------------------------------------------------------


def boxed(runs: list[Assignment]) -> tuple[Outbox, list[list[int]]]:
    """Return an outbox with the ends of *runs*, and what it says is committed."""
    told: list[list[int]] = []
    outbox = Outbox(
        "default",
        ring=lambda: None,
        written=lambda endings: told.append([end.assignment.hand_out for end in endings]),
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


# --- R25 ----------------------------------------------------------------------------


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


# --- R37 ----------------------------------------------------------------------------


@contextmanager
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    """Open a channel and the bare socket at its other end."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    try:
        yield channel, theirs
    finally:
        channel.close()
        theirs.close()


def test_r37_a_message_that_comes_in_pieces_is_read_once_it_is_whole() -> None:
    with pair() as (channel, other), pair() as (sender, wire):
        sender.send("written", pools=["a"])
        sender.send("ready")
        content = wire.recv(4096)
        other.sendall(content[:3])
        first = channel.receive()
        other.sendall(content[3:-1])
        second = channel.receive()
        other.sendall(content[-1:])
        third = channel.receive()

    assert [] == first
    assert [{"kind": "written", "pools": ["a"]}] == second
    assert [{"kind": "ready"}] == third


def test_r37_sending_to_one_who_does_not_read_blocks_nobody_and_loses_nothing() -> None:
    pools = [f"pool-{n}" for n in range(2_000)]

    with pair() as (channel, other):
        for _ in range(50):
            channel.send("written", pools=pools)
        is_full = not channel.flush()
        reader = Channel(other)
        messages = []
        until(
            lambda: (
                messages.extend(reader.receive()),
                channel.flush(),
                len(messages) == 50,
            )[2],
            "50 messages",
        )

    assert is_full
    assert [pools] * 50 == [message["pools"] for message in messages]


def test_r37_one_who_is_gone_is_known_to_be_gone() -> None:
    with pair() as (channel, other):
        other.close()
        channel.send("assigned")
        found = channel.receive()

    assert [] == found
    assert channel.is_closed


def test_r37_a_worker_whose_runner_says_nothing_looks_for_itself(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    # Whoever of the two makes the pass has no word for the worker of the other.
    live("--threads", "1")
    live("--threads", "1")
    pool = fresh(max_parallelism=2)

    works = [
        pool.enqueue_action(functions.hold, {"name": name}) for name in ("one", "two")
    ]
    journal.wait_begun("one", "two")
    journal.release("one")
    journal.release("two")
    ends = [pool.wait(work, timeout=30) for work in works]

    assert ["success", "success"] == [one.completion_status for one in ends]
    assert 2 == len({one.pid for one in journal.intervals(pool.name)})
