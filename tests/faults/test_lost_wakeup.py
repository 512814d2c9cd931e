"""Must hold: no wake-up is lost, forced at every failpoint around going idle.

Without backstop and polls: what nobody wakes sleeps for ever, and the test fails.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest
from django.db import connections, transaction

from tests.app import functions
from tests.conformance.pools import fresh
from tests.conformance.stumbling import NO_NETS, loop_state, wait_asleep, wait_reached
from tests.conformance.tables import count
from tests.conformance.threads import closing, elsewhere
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

PATIENCE = 30
# The first pass starts a work that is held; the second finds nothing and goes idle,
# which is where it waits.
POINTS: Final = {
    "next.before_write": "next.before_write=wait:here*1@runner",
    "pass.before_commit": "pass.before_commit=wait:here*1@runner",
    "pass.after_commit": "pass.after_commit=wait:here*1@runner",
    "idle.before_sleep": "idle.before_sleep=wait:here@runner",
}
# vendor: on SQLite the pass holds the only lock for writing at these.
INSIDE = {"next.before_write", "pass.before_commit"}
ENDS = pytest.mark.parametrize("point", ["next.before_write", "idle.before_sleep"])


def _at_rendezvous(
    live: Callable[..., LiveRunner],
    journal: Journal,
    point: str,
    *,
    max_parallelism: int,
    works: int = 1,
) -> tuple[Workpool, list[Work]]:
    """Return a pool whose first work is held, its loop waiting on its way to sleep."""
    pool = fresh("sleeper", max_parallelism=max_parallelism)
    live(WORKPOOL_FAILPOINTS=POINTS[point], **NO_NETS)
    with transaction.atomic(using="default"):
        held = pool.enqueue_action(functions.hold)
        others = pool.enqueue_action_batch(functions.echo, [None] * (works - 1))
    wait_reached(journal, "here")
    journal.wait_begun()
    return pool, [held, *others]


def _meanwhile(call: Callable[[], object], journal: Journal, point: str) -> None:
    """Let *call* be done while the loop waits, and then let the loop go."""
    is_blocked = connections["default"].vendor == "sqlite" and point in INSIDE
    with ThreadPoolExecutor(1) as other:
        calling = other.submit(closing, call)
        if not is_blocked:
            calling.result()
        journal.release("here")
        calling.result()


@pytest.mark.parametrize("point", POINTS)
def test_a_work_enqueued_while_the_loop_goes_idle_starts(
    point: str, live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, (held,) = _at_rendezvous(live, journal, point, max_parallelism=2)

    _meanwhile(lambda: pool.enqueue_action(functions.echo), journal, point)

    journal.wait_for("end")
    assert 2 == len(journal.begins())
    assert "in_progress" == pool.status(held).kind


@ENDS
def test_a_work_canceled_while_the_loop_goes_idle_ends_canceled(
    point: str, live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, (held, waiting) = _at_rendezvous(
        live, journal, point, max_parallelism=1, works=2
    )

    _meanwhile(lambda: pool.cancel(waiting), journal, point)

    assert "canceled" == pool.wait(waiting, timeout=PATIENCE).completion_status
    assert ids([held]) == journal.begins()


@ENDS
def test_a_limit_raised_while_the_loop_goes_idle_is_used(
    point: str, live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, (held, waiting) = _at_rendezvous(
        live, journal, point, max_parallelism=1, works=2
    )

    _meanwhile(lambda: pool.update(max_parallelism=2), journal, point)

    assert "success" == pool.wait(waiting, timeout=PATIENCE).completion_status
    assert "in_progress" == pool.status(held).kind


@ENDS
def test_a_work_that_ends_while_the_loop_goes_idle_frees_its_slot(
    point: str, live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, (held, waiting) = _at_rendezvous(
        live, journal, point, max_parallelism=1, works=2
    )

    def end_it() -> None:
        journal.release()
        until(
            lambda: count("PendingCompletion") or pool.status(held).completed_at,
            "the completion of the held work",
        )

    _meanwhile(end_it, journal, point)

    assert "success" == pool.wait(waiting, timeout=PATIENCE).completion_status
    assert "success" == pool.wait(held, timeout=PATIENCE).completion_status
    assert 1 == journal.peak(pool.name)


@pytest.mark.vendor("postgresql")  # on SQLite an open writer keeps the loop awake
def test_a_work_enqueued_while_the_loop_ran_and_committed_when_it_sleeps_starts(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, _ = _at_rendezvous(live, journal, "next.before_write", max_parallelism=2)
    other = fresh("other")

    with transaction.atomic(using="default"):
        late = pool.enqueue_action(functions.echo)
        while_running = loop_state(pool)
        journal.release("here")
        wait_asleep(pool)
        # The thread of the loops serves one pool after the other: a whole work of
        # another pool means that this one sleeps, after its second look.
        clock = elsewhere(lambda: _run(other))
        when_asleep = loop_state(pool)

    assert ("running", "idle") == (while_running, when_asleep)
    assert "success" == pool.wait(late, timeout=PATIENCE).completion_status
    assert ids([clock, late]) == journal.begins()[1:]


def _run(pool: Workpool) -> Work:
    work = pool.enqueue_action(functions.echo)
    pool.wait(work, timeout=PATIENCE)
    return work
