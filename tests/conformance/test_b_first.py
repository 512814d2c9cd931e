"""The limit also holds for the first works of a pool that its runner does not know.

The row of the pool comes after the commit of the first enqueue.  Whoever passes in
between must not take the default limit for the declared one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_workpool import options
from django_workpool.testing import clock, run_pass
from tests.app import functions
from tests.conformance.pools import fresh
from tests.conformance.stumbling import armed, wait_reached
from tests.conformance.tables import count, in_force
from tests.conformance.threads import closing

if TYPE_CHECKING:
    from django_workpool import Workpool
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

WORKS: list[dict[str, Any]] = [{"a": n} for n in range(30)]


def pass_of_a_stranger(pool: Workpool) -> int:
    """Pass as a process would that declares nothing; return the number of starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(options._declared.pools, pool.name)
        passed = run_pass(pool.name)
    return 0 if passed is None else len(passed.plan.starts)


@pytest.mark.item("B1", "B13")
@pytest.mark.parametrize("limit", [0, 2])
def test_a_pass_between_the_commit_and_the_declaration_keeps_the_declared_limit(
    limit: int,
) -> None:
    pool = fresh(max_parallelism=limit)
    starts: list[int] = []

    # Time stands still: the declaration is not given up for lost.
    with clock(), transaction.atomic():
        # Registered before the enqueue, so that it runs before the hook that declares.
        transaction.on_commit(lambda: starts.append(pass_of_a_stranger(pool)))
        pool.enqueue_action_batch(functions.add, WORKS)
    run_pass(pool.name)

    assert len(starts) == 1
    assert starts[0] <= limit
    assert limit == pool.debug_counts()["inProgressWork"]
    assert limit == in_force(pool)["max_parallelism"]


@pytest.mark.item("B1", "B13")
@pytest.mark.parametrize("limit", [0, 2])
def test_outside_a_transaction_the_declaration_comes_before_the_works(
    journal: Journal, limit: int
) -> None:
    pool = fresh(max_parallelism=limit)

    def enqueue() -> None:
        pool.enqueue_action_batch(functions.add, WORKS)

    with (
        armed("sync.before_write=wait:declare", journal),
        ThreadPoolExecutor(max_workers=1) as other,
    ):
        enqueued = other.submit(closing, enqueue)
        wait_reached(journal, "declare")
        works, starts = count("Work"), pass_of_a_stranger(pool)
        journal.release("declare")
        enqueued.result()
    run_pass(pool.name)

    assert (0, 0) == (works, starts)
    assert limit == pool.debug_counts()["inProgressWork"]
    assert limit == in_force(pool)["max_parallelism"]
