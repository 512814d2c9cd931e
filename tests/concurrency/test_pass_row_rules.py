"""Protocol R8 to R10 and R39: rows, keys, numbers, and the one lock of SQLite."""

from __future__ import annotations

import time
from threading import Event
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction

from django_workpool.engine import complete
from django_workpool.models import (
    CompletedWork,
    MainLoop,
    PendingCancelation,
)
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.concurrency.sessions import in_progress, passed, passing, standing
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.sessions import beside
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool.engine.loop import Passed
    from tests.journal import Journal
    from tests.live import LiveRunner

    Execute = Callable[..., object]
    Wrapper = Callable[..., object]

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])


# --- R8 -------------------------------------------------------------------------------


def test_r08_a_row_that_cannot_be_moved_is_moved_alone_and_named_once(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(max_parallelism=3)
    works = pool.enqueue_action_batch(functions.echo, [None] * 3)
    runs = begin(pool)
    due = pool.enqueue_action_batch(functions.echo, [None] * 3)
    for run in runs:
        end(run)
    CompletedWork.objects.using("default").create(
        work_id=works[1].pk,
        pool=pool.name,
        completion_status="error",
        completed_at=works[1].enqueued_at,
    )

    run_pass(pool.name, with_worker=False)

    assert ["success", "error", "success"] == [
        pool.status(work).completion_status for work in works
    ]
    assert sorted(ids(due)) == sorted(in_progress(pool))
    assert 1 == caplog.text.count("cannot be moved")
    assert str(works[1].pk) in caplog.text
    assert str(works[0].pk) not in caplog.text


# --- R9 -------------------------------------------------------------------------------


def test_r09_no_queue_table_has_a_foreign_key_and_requests_have_no_unique_key() -> None:
    connection = connections["default"]
    foreign: list[str] = []
    unique: dict[str, list[list[str]]] = {}

    with connection.cursor() as cursor:
        names = connection.introspection.table_names(cursor)
        for name in [name for name in names if name.startswith("workpool_")]:
            found = connection.introspection.get_constraints(cursor, name).values()
            foreign += [name for one in found if one["foreign_key"]]
            unique[name] = [
                one["columns"]
                for one in found
                if one["unique"] and not one["primary_key"]
            ]

    assert [] == foreign
    assert [] == unique["workpool_pending_cancelation"]
    assert [] == unique["workpool_pending_completion"]
    assert [["pool", "lane", "place"]] == unique["workpool_in_progress_work"]


@pytest.mark.vendor("postgresql")
def test_r09_rivals_with_open_transactions_do_not_block_each_other() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    (run,) = begin(pool)
    executor = inline_executor()
    ending = complete.canceled(run, executor.worker.pk, executor._clock.now())

    def rival() -> None:
        pool.cancel(work)
        complete.write("default", [ending])

    with transaction.atomic(using="default"):
        pool.cancel(work)
        complete.write("default", [ending])
        with beside(rival) as done:
            done()
    drain(pool.name)

    assert "canceled" == pool.status(work).completion_status
    assert 1 == CompletedWork.objects.using("default").count()


# --- R10 ------------------------------------------------------------------------------


def test_r10_a_loop_that_was_made_again_never_repeats_a_number(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(max_parallelism=1)
    work = pool.enqueue_action(functions.echo)
    (old,) = begin(pool)
    complete.give_back("default", [old.key])
    MainLoop.objects.using("default").filter(pk=pool.name).delete()

    (new,) = begin(pool)
    # The former hand-out was not dead: it ends only now.
    end(old)
    found = passed(run_pass(pool.name, with_worker=False))
    still = in_progress(pool)
    end(new)
    drain(pool.name)

    assert old.hand_out < new.hand_out
    assert [""] == [entry.status for entry in found.plan.completions]
    assert {str(work.pk): new.hand_out} == still
    assert "late" in caplog.text
    assert 1 == CompletedWork.objects.using("default").count()


def test_r10_two_first_passes_at_once_give_out_rising_numbers(
    journal: Journal,
) -> None:
    pool = fresh(max_parallelism=2)
    pool.enqueue_action(functions.echo)
    inline_executor()

    def also() -> Passed | None:
        pool.enqueue_action(functions.echo)
        return passing(pool)()

    with (
        standing(passing(pool), "pass.before_commit", journal) as goes_on,
        beside(also) as too,
    ):
        plans = [passed(goes_on()).plan, passed(too()).plan]

    first, second = (start.hand_out for plan in plans for start in plan.starts)
    assert first < second
    assert {first, second} == set(in_progress(pool).values())


# --- R39 ------------------------------------------------------------------------------


@pytest.mark.vendor("sqlite")
def test_r39_between_its_passes_a_runner_leaves_the_lock_as_long_as_it_held_it(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    held, rounds = 0.2, 5
    live(WORKPOOL_FAILPOINTS=f"pass.locked=sleep:{held}@runner")
    pool = fresh()
    pool.pause()
    # A pass takes 200 requests, and the next one follows it.
    works = pool.enqueue_action_batch(functions.echo, [None] * 200 * rounds)
    began = time.monotonic()

    with transaction.atomic(using="default"):
        requests = [
            PendingCancelation(
                pool=pool.name, work_id=work.pk, requested_at=work.enqueued_at
            )
            for work in works
        ]
        PendingCancelation.objects.using("default").bulk_create(requests)
        pool.resume()
    ended = CompletedWork.objects.using("default")
    until(lambda: ended.count() == len(works), "all to be canceled")

    # Nothing but the rests can make it last so long, and nothing makes them shorter.
    assert time.monotonic() - began >= held * rounds + held * (rounds - 1)
    assert [] == journal.begins()


@pytest.mark.vendor("sqlite")
def test_r39_the_rest_is_as_long_as_the_lock_was_held_not_as_it_was_waited_for() -> (
    None
):
    pool = fresh()
    inline_executor()

    with beside(passing(pool)) as done:
        with transaction.atomic(using="default"):
            pool.enqueue_action(functions.echo)
            waited = hold_the_lock()
        found = passed(done())

    assert found.milliseconds < waited


def hold_the_lock() -> float:
    """Hold the lock of SQLite for a while; return how long, in milliseconds."""
    began = time.monotonic()
    Event().wait(3)
    return (time.monotonic() - began) * 1000
