"""Protocol R34 and R35: what a loop never sleeps through.

More of R34, at every failpoint around going idle: ``tests/faults/test_lost_wakeup.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])


def sleeping(pool: Workpool, *, saturated: bool = False, state: str = "idle") -> None:
    """Let the loop of a declared pool say that it sleeps, or what it is told."""
    run_pass(pool.name)
    rows = MainLoop.objects.using("default").filter(pk=pool.name)
    rows.update(state=state, saturated=saturated)


# --- R34 ------------------------------------------------------------------------------


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


# --- R35 ------------------------------------------------------------------------------


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
