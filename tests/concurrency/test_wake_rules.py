"""Protocol, section 6: who wakes a sleeping loop, and what it never sleeps through.

More of R34, at every failpoint around going idle: ``tests/faults/test_lost_wakeup.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_workpool import arguments, registry
from django_workpool.db import clock
from django_workpool.engine import complete, kick, workers
from django_workpool.engine.loop import has_something_to_do
from django_workpool.models import (
    CompletedWork,
    InProgressWork,
    MainLoop,
    PendingCancelation,
    PendingCompletion,
    PendingStart,
    Pool,
    Work,
)
from django_workpool.testing import inline_executor, run_pass
from tests.app import functions
from tests.concurrency.sessions import listening
from tests.conformance.begun import begin, end
from tests.conformance.pools import fresh
from tests.conformance.sessions import statements
from tests.conformance.stumbling import (
    NO_NETS,
    armed,
    loop_state,
    wait_asleep,
    wait_reached,
)
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from django_workpool import Workpool
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

KICK = "m.saturated FROM workpool_pool"


class Undo(Exception):  # noqa: N818 - it is no error
    """Rolls a transaction or a savepoint back."""


def atomic() -> AbstractContextManager[None]:
    """Open a transaction or a savepoint on the pools' database."""
    return transaction.atomic(using="default")


def sleeping(pool: Workpool, *, saturated: bool = False, state: str = "idle") -> None:
    """Let the loop of a declared pool say that it sleeps, or what it is told."""
    run_pass(pool.name)
    rows = MainLoop.objects.using("default").filter(pk=pool.name)
    rows.update(state=state, saturated=saturated)


# --- R33 ----------------------------------------------------------------------------


def enqueue_thrice(pool: Workpool) -> None:
    with atomic():
        pool.enqueue_action(functions.echo)
        pool.enqueue_mutation(functions.effect)
        pool.enqueue_action_batch(functions.echo, [None, None])


def enqueue_behind_a_lost_savepoint(pool: Workpool) -> None:
    with atomic():
        with pytest.raises(Undo), atomic():
            pool.enqueue_action(functions.echo)
            raise Undo
        pool.enqueue_action(functions.echo)


def enqueue_before_a_lost_savepoint(pool: Workpool) -> None:
    with atomic():
        pool.enqueue_action(functions.echo)
        with pytest.raises(Undo), atomic():
            pool.enqueue_action(functions.echo)
            raise Undo


def enqueue_in_vain(pool: Workpool) -> None:
    with pytest.raises(Undo), atomic():
        pool.enqueue_action(functions.echo)
        raise Undo


def enqueue_in_a_hook(pool: Workpool) -> None:
    with atomic():
        transaction.on_commit(
            lambda: pool.enqueue_action(functions.echo), using="default"
        )
        pool.enqueue_action(functions.echo)


COMMITS = [
    (enqueue_thrice, 1),
    (enqueue_behind_a_lost_savepoint, 1),
    (enqueue_before_a_lost_savepoint, 1),
    (enqueue_in_vain, 0),
    # The second transaction ends before the hook of the first one runs.
    (enqueue_in_a_hook, 1),
]


@pytest.mark.parametrize(
    ("act", "reads"), [pytest.param(*row, id=row[0].__name__) for row in COMMITS]
)
def test_r33_a_transaction_reads_the_loop_once_after_its_commit(
    act: Callable[[Workpool], None], reads: int
) -> None:
    pool = fresh()
    sleeping(pool)

    with statements() as executed:
        act(pool)

    kicks = [place for place, sql in enumerate(executed) if KICK in sql]
    assert reads == len(kicks)
    # Behind everything that the transaction did.
    assert kicks == sorted(kicks)
    assert [] == [sql for sql in executed[:1] if KICK in sql]


@pytest.mark.vendor("postgresql")
@pytest.mark.parametrize(
    ("act", "heard"), [pytest.param(*row, id=row[0].__name__) for row in COMMITS]
)
def test_r33_a_transaction_kicks_once_and_only_what_it_committed(
    act: Callable[[Workpool], None], heard: int
) -> None:
    pool = fresh()
    sleeping(pool)

    with listening() as listener:
        act(pool)
        found = listener.heard()

    assert [pool.name] * heard == found


@pytest.mark.vendor("postgresql")
def test_r33_nothing_is_sent_before_the_commit_and_each_pool_is_kicked() -> None:
    first, second = fresh("first"), fresh("second")
    sleeping(first)
    sleeping(second)

    with listening() as listener:
        with atomic():
            first.enqueue_action(functions.echo)
            second.enqueue_action(functions.echo)
            first.enqueue_action(functions.echo)
            before = listener.heard()
        after = listener.heard()

    assert [] == before
    assert [first.name, second.name] == after


def cancel(pool: Workpool) -> None:
    pool.cancel(Work.objects.using("default").for_pool(pool.name)[0])


def raise_limit(pool: Workpool) -> None:
    pool.update(max_parallelism=5)


def resume(pool: Workpool) -> None:
    pool.resume()


@pytest.mark.vendor("postgresql")
@pytest.mark.parametrize("act", [cancel, raise_limit, resume])
def test_r33_what_a_saturated_loop_must_hear_is_sent_though_an_enqueue_came_first(
    act: Callable[[Workpool], None],
) -> None:
    pool = fresh()
    pool.enqueue_action(functions.echo)
    sleeping(pool, saturated=True)

    with listening() as listener:
        pool.enqueue_action(functions.echo)
        by_enqueue = listener.heard()
        act(pool)
        by_act = listener.heard()
        with atomic():
            pool.enqueue_action(functions.echo)
            act(pool)
        together = listener.heard()

    assert [] == by_enqueue
    assert [pool.name] == by_act
    assert [pool.name] == together


@pytest.mark.vendor("postgresql")
def test_r33_a_loop_that_is_awake_is_not_kicked() -> None:
    pool = fresh()
    sleeping(pool, state="running")

    with listening() as listener:
        pool.enqueue_action(functions.echo)
        kick.kick("default", pool.name)
        found = listener.heard()

    assert [] == found


def test_r33_a_saturated_pool_needs_no_kick_for_what_was_enqueued_meanwhile(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live(**NO_NETS)
    pool = fresh(max_parallelism=1)
    held = pool.enqueue_action(functions.hold)
    journal.wait_begun()
    wait_asleep(pool)

    works = [pool.enqueue_action(functions.echo) for _ in range(3)]
    journal.release()
    ends = [pool.wait(work, timeout=30) for work in (held, *works)]

    assert {"success"} == {one.completion_status for one in ends}
    assert ids([held, *works]) == journal.begins(pool.name)


def test_r33_every_reason_wakes_a_loop_that_has_no_other_net(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live(**NO_NETS)
    pool = fresh(max_parallelism=1)

    enqueue_behind_a_lost_savepoint(pool)
    (first,) = Work.objects.using("default").for_pool(pool.name)
    ends = [pool.wait(first, timeout=30)]
    pool.pause()
    canceled, resumed, limited = pool.enqueue_action_batch(functions.echo, [None] * 3)
    wait_asleep(pool)
    pool.cancel(canceled)
    ends.append(pool.wait(canceled, timeout=30))
    pool.update(max_parallelism=0)
    pool.cancel(resumed)
    ends.append(pool.wait(resumed, timeout=30))
    pool.resume()
    wait_asleep(pool)
    pool.update(max_parallelism=1)
    ends.append(pool.wait(limited, timeout=30))

    assert ["success", "canceled", "canceled", "success"] == [
        one.completion_status for one in ends
    ]
    assert ids([first, limited]) == journal.begins(pool.name)


def test_r33_a_worker_that_came_or_died_without_a_loop_wakes_the_loop_of_another(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live("--no-workers", **NO_NETS)
    pool = fresh()
    work = pool.enqueue_action(functions.hold)
    wait_asleep(pool)

    runner = live("--no-loop", WORKPOOL_TEST_BACKSTOP="1")
    journal.wait_begun()
    (worker,) = runner.workers()
    worker.kill()
    end = pool.wait(work, timeout=30)

    assert ("error", "WorkerLostError") == (
        end.completion_status,
        pool.result(work).error_type,
    )


# --- R34 ----------------------------------------------------------------------------


def nothing(_pool: Workpool) -> None:
    """Leave it as it is: saturated, with a backlog."""


def a_raised_limit(pool: Workpool) -> None:
    pool.update(max_parallelism=2)


def a_request(pool: Workpool) -> None:
    row = Work.objects.using("default").for_pool(pool.name)[0]
    pool.cancel(row)


def a_dead_worker(_pool: Workpool) -> None:
    worker = inline_executor().worker.pk
    workers.ended("default", worker, is_dead=True, last_exit="exit code 1", begun=None)


def a_completion(pool: Workpool) -> None:
    row = InProgressWork.objects.using("default").for_pool(pool.name).get()
    PendingCompletion.objects.using("default").create(
        pool=pool.name,
        work_id=row.pk,
        hand_out=row.hand_out,
        status="success",
        finished_at=row.handed_out_at,
    )


def a_give_back(pool: Workpool) -> None:
    row = InProgressWork.objects.using("default").for_pool(pool.name).get()
    complete.give_back("default", [(row.pk, row.hand_out)])


def a_pause(pool: Workpool) -> None:
    pool.pause()
    a_give_back(pool)


@pytest.mark.parametrize(
    ("change", "awake"),
    [
        (nothing, False),
        (a_pause, False),
        (a_raised_limit, True),
        (a_request, True),
        (a_dead_worker, True),
        (a_completion, True),
        (a_give_back, True),
    ],
)
def test_r34_the_second_look_finds_what_a_pass_would_change_and_nothing_else(
    change: Callable[[Workpool], None], awake: bool
) -> None:
    pool = fresh(max_parallelism=1)
    pool.enqueue_action_batch(functions.echo, [None] * 3)
    run_pass(pool.name)
    before = has_something_to_do("default", pool.name)

    change(pool)
    found = has_something_to_do("default", pool.name)

    assert not before
    assert awake == found


def test_r34_a_limit_raised_before_the_loop_sleeps_is_seen_though_its_kick_is_lost(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live(WORKPOOL_FAILPOINTS="idle.before_sleep=wait:sleep@runner", **NO_NETS)
    pool = fresh(max_parallelism=0)
    work = pool.enqueue_action(functions.echo)
    wait_reached(journal, "sleep")
    state = loop_state(pool)

    # The hook is robust: its error is logged, and the caller goes on.
    with armed("kick.before_send=raise:RuntimeError", journal):
        pool.update(max_parallelism=1)
    journal.release("sleep")
    end = pool.wait(work, timeout=30)

    assert "idle" == state
    assert "success" == end.completion_status


def test_r34_a_saturated_backlog_lets_the_loop_sleep(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live()
    pool, other = fresh(max_parallelism=1), fresh("other")
    held = pool.enqueue_action(functions.hold)
    journal.wait_begun()
    waiting = pool.enqueue_action_batch(functions.echo, [None] * 20)
    wait_asleep(pool)
    before = MainLoop.objects.using("default").get(pk=pool.name).generation

    # Time passes: the backstop looks at all pools at least once.
    other.wait(other.enqueue_action(functions.sleep, {"seconds": 1.2}), timeout=30)
    after = MainLoop.objects.using("default").get(pk=pool.name).generation
    journal.release()
    ends = [pool.wait(work, timeout=30) for work in (held, *waiting)]

    # One for a kick that was read before the loop said that it is saturated.
    assert after - before <= 1
    assert {"success"} == {one.completion_status for one in ends}


# --- R35 ----------------------------------------------------------------------------


def undeclared(name: str) -> Work:
    """Store a work of a pool that has no row, as if its enqueuer had died then."""
    function = registry.handle_of(functions.echo)
    work = Work.objects.using("default").create(
        id="01890000-0000-7000-8000-000000000001",
        pool=name,
        fn_type=function.kind,
        fn_handle=function.handle,
        fn_name=function.label,
        fn_args=arguments.encode_arguments(function, None),
        enqueued_at="2026-01-01T00:00:00Z",
    )
    PendingStart.objects.using("default").create(
        work_id=work.pk,
        pool=name,
        fn_handle=function.handle,
        run_at="2026-01-01T00:00:00Z",
    )
    return work


def test_r35_a_pool_whose_declaration_never_arrived_runs(
    live: Callable[..., LiveRunner],
) -> None:
    live()

    work = undeclared("never declared")
    records = CompletedWork.objects.using("default").filter(pk=work.pk)
    until(records.exists, "the work of a pool without a row")

    assert "success" == records.get().completion_status
    assert 10 == Pool.objects.using("default").get(pk="never declared").max_parallelism


def test_r35_one_query_finds_each_pool_with_something_to_look_at() -> None:
    quiet, expired = fresh("quiet"), fresh("expired", status_ttl=0)
    (run,) = begin_one(expired)
    end(run)
    run_pass(expired.name)
    run_pass(quiet.name)
    undeclared("only a start")
    now = Work.objects.using("default").get(pool="only a start").enqueued_at
    PendingCompletion.objects.using("default").create(
        pool="only a completion", work_id=run.work_id, hand_out=1, finished_at=now
    )
    PendingCancelation.objects.using("default").create(
        pool="only a request", work_id=run.work_id, requested_at=now
    )

    with statements() as executed:
        found = kick.overview("default")

    hot = [sql for sql in executed if "workpool_" in sql]
    assert 1 == len(hot)
    assert ["only a completion", "only a request", "only a start"] == sorted(
        one.pool for one in found if one.has_rows
    )
    assert {expired.name} == {one.pool for one in found if one.has_expired}
    assert quiet.name in {one.pool for one in found}


def begin_one(pool: Workpool) -> list[complete.Assignment]:
    """Let one work of a pool begin."""
    pool.enqueue_action(functions.echo)
    return begin(pool)


def test_r35_a_loop_whose_runner_died_awake_is_found() -> None:
    pool = fresh()
    sleeping(pool, state="running")

    (found,) = [one for one in kick.overview("default") if one.pool == pool.name]

    assert found.is_overdue(clock.now("default"))
    assert not found.has_rows
