"""Must hold: a work that is committed late still runs; what is rolled back never."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from django_workpool.models import CompletedWork, PendingStart, Work
from tests.app import functions
from tests.conformance.pools import fresh
from tests.conformance.stumbling import loop_state
from tests.conformance.threads import elsewhere
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])

MEANWHILE = 2_000


def done(pool: Workpool) -> int:
    """Return how many works of a pool have ended."""
    return CompletedWork.objects.using("default").for_pool(pool.name).count()


def do_meanwhile(pool: Workpool) -> set[str]:
    """Let many works of the same pool come and go; return their ids."""
    works = pool.enqueue_action_batch(functions.echo, [None] * MEANWHILE)
    until(lambda: done(pool) == MEANWHILE, f"{MEANWHILE} other works", 90)
    return set(ids(works))


@pytest.mark.vendor(
    "postgresql"
)  # SQLite has one writer: nothing else is done meanwhile
def test_a_work_committed_after_2000_others_are_done_still_runs(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live()
    pool = fresh(max_parallelism=30)

    with transaction.atomic(using="default"):
        late = pool.enqueue_action(functions.echo)
        with transaction.atomic(using="default"):
            gone = pool.enqueue_action(functions.echo)
            transaction.set_rollback(True, using="default")
        others = elsewhere(lambda: do_meanwhile(pool))
        begun = set(journal.begins())
    end = pool.wait(late, timeout=30)

    assert others == begun
    assert "success" == end.completion_status
    assert ids([late]) == journal.begins()[MEANWHILE:]
    assert [None] == pool.status_batch([gone])
    assert MEANWHILE + 1 == done(pool)


def test_a_work_committed_when_the_loop_has_long_slept_runs_and_the_rest_is_gone(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live()
    pool = fresh()
    pool.wait(pool.enqueue_action(functions.echo), timeout=30)
    until(lambda: loop_state(pool) == "idle", "the loop to sleep")

    with transaction.atomic(using="default"):
        late = pool.enqueue_action(functions.echo)
        with transaction.atomic(using="default"):
            gone = pool.enqueue_action_batch(functions.echo, [None] * 10)
            transaction.set_rollback(True, using="default")
        # Another session reads all the while, and sees none of them.
        seen = elsewhere(lambda: Work.objects.using("default").count())
    end = pool.wait(late, timeout=30)

    assert 1 == seen
    assert "success" == end.completion_status
    assert [str(late.pk)] == journal.begins()[1:]
    assert [None] * 10 == pool.status_batch(gone)
    assert 2 == Work.objects.using("default").count()
    assert 0 == PendingStart.objects.using("default").count()
