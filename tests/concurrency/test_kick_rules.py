"""Protocol R33: who wakes a sleeping loop, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_workpool.engine import kick
from django_workpool.models import (
    MainLoop,
    Work,
)
from django_workpool.testing import run_pass
from tests.app import functions
from tests.concurrency.sessions import listening
from tests.conformance.pools import fresh
from tests.conformance.sessions import statements
from tests.conformance.stumbling import (
    NO_NETS,
    wait_asleep,
)
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from django_workpool import Workpool
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])

KICK = "m.saturated FROM workpool_pool"


def atomic() -> AbstractContextManager[None]:
    """Open a transaction or a savepoint on the pools' database."""
    return transaction.atomic(using="default")


def undo() -> None:
    """Let the innermost transaction or savepoint roll back at its end."""
    transaction.set_rollback(True, using="default")


def sleeping(pool: Workpool, *, saturated: bool = False, state: str = "idle") -> None:
    """Let the loop of a declared pool say that it sleeps, or what it is told."""
    run_pass(pool.name)
    rows = MainLoop.objects.using("default").filter(pk=pool.name)
    rows.update(state=state, saturated=saturated)


# --- R33 ------------------------------------------------------------------------------


def enqueue_thrice(pool: Workpool) -> None:
    with atomic():
        pool.enqueue_action(functions.echo)
        pool.enqueue_mutation(functions.effect)
        pool.enqueue_action_batch(functions.echo, [None, None])


def enqueue_behind_a_lost_savepoint(pool: Workpool) -> None:
    with atomic():
        with atomic():
            pool.enqueue_action(functions.echo)
            undo()
        pool.enqueue_action(functions.echo)


def enqueue_before_a_lost_savepoint(pool: Workpool) -> None:
    with atomic():
        pool.enqueue_action(functions.echo)
        with atomic():
            pool.enqueue_action(functions.echo)
            undo()


def enqueue_in_vain(pool: Workpool) -> None:
    with atomic():
        pool.enqueue_action(functions.echo)
        undo()


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
