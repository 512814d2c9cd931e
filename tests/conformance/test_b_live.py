"""Group B: limits and pauses that change while a runner lives in another process.

At once means without the backstop: it is switched off (``NO_NETS``), so that only a
kick can be what starts a work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_workpool.testing import drain, run_pass
from tests.app import functions
from tests.conformance.pools import fresh
from tests.conformance.stumbling import NO_NETS
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])
# Without a commit to look at there is nothing to flush.
IN_A_TRANSACTION = pytest.mark.django_db(databases=["default", "other"])


def begun(journal: Journal, pool: Workpool, count: int) -> int:
    """Wait until so many works of the pool have begun; return how many there are."""
    until(lambda: len(journal.begins(pool.name)) >= count, f"{count} begins")
    return len(journal.begins(pool.name))


def pass_by(witness: Workpool, journal: Journal) -> None:
    """Let a work run that was enqueued last: what came before it has been looked at."""
    (work,) = ids([witness.enqueue_action(functions.add, {"a": 1})])
    until(lambda: work in journal.begins(witness.name), "the witness to begin")


def hold_all(pool: Workpool, count: int) -> list[Any]:
    """Enqueue works that wait, each for its own release: held-0, held-1."""
    return pool.enqueue_action_batch(
        functions.hold, [{"name": f"held-{n}"} for n in range(count)]
    )


@pytest.mark.item("B7")
def test_a_live_runner_uses_a_raised_and_a_lowered_limit_from_the_next_pass_on(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)
    runner = live()
    workers = runner.workers()
    works = hold_all(pool, 6)
    begun(journal, pool, 1)

    pool.update(max_parallelism=3)
    begun(journal, pool, 3)
    raised = pool.debug_counts()

    pool.update(max_parallelism=1)
    journal.release("held-0")
    journal.release("held-1")
    ends = [pool.wait(work, timeout=30) for work in works[:2]]
    # The pass that consumed these completions also gave out what was free.
    lowered = pool.debug_counts()
    journal.release("held-2")
    begun(journal, pool, 4)
    refilled = pool.debug_counts()

    assert (3, 3) == (raised["pendingStart"], raised["inProgressWork"])
    assert ["success"] * 2 == [end.completion_status for end in ends]
    assert (3, 1) == (lowered["pendingStart"], lowered["inProgressWork"])
    assert 2 == refilled["pendingStart"]
    assert set(ids(works)[:4]) == set(journal.begins(pool.name))
    assert 3 == journal.peak(pool.name)
    assert workers == runner.workers()


@pytest.mark.item("B7")
@IN_A_TRANSACTION
@pytest.mark.parametrize(("declared", "limit"), [(1, 3), (3, 1), (3, 0), (0, 3)])
def test_the_next_pass_uses_an_updated_limit(declared: int, limit: int) -> None:
    pool = fresh(max_parallelism=declared)
    pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(5)])

    pool.update(max_parallelism=limit)
    passed = run_pass(pool.name)

    assert passed is not None
    assert limit == len(passed.plan.starts)


@pytest.mark.item("B10")
@IN_A_TRANSACTION
def test_a_paused_pool_starts_nothing_and_still_takes_works(journal: Journal) -> None:
    pool = fresh()
    before = pool.enqueue_action(functions.add, {"a": 1})

    pool.pause("the provider is down")
    after = pool.enqueue_action(functions.add, {"a": 2})
    ran = drain(pool.name)

    assert 0 == ran
    assert ["pending"] * 2 == [pool.status(work).kind for work in (before, after)]
    assert [("paused",)] * 2 == [pool.explain(work).failed for work in (before, after)]
    assert [] == journal.lines()

    pool.resume()
    drain(pool.name)

    assert ids([before, after]) == journal.begins(pool.name)


@pytest.mark.item("B10")
@IN_A_TRANSACTION
def test_a_pause_stops_nothing_that_runs() -> None:
    pool = fresh(max_parallelism=1)
    runs, waits = pool.enqueue_action_batch(functions.add, [{"a": 1}, {"a": 2}])
    run_pass(pool.name)

    pool.pause()
    drain(pool.name)

    assert "completed" == pool.status(runs).kind
    assert "pending" == pool.status(waits).kind


@pytest.mark.item("B10")
def test_works_of_a_paused_pool_start_at_once_when_it_is_resumed(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, witness = fresh(), fresh("witness")
    live(**NO_NETS)

    def pause_and_resume(number: int) -> int:
        pool.pause()
        pool.enqueue_action(functions.add, {"a": number})
        pass_by(witness, journal)
        assert number - 1 == len(journal.begins(pool.name))
        pool.resume()
        return begun(journal, pool, number)

    assert [1, 2, 3] == [pause_and_resume(number) for number in (1, 2, 3)]


def fill(pool: Workpool, journal: Journal) -> None:
    """Saturate the pool."""
    hold_all(pool, 30)
    begun(journal, pool, 2)


def pause(pool: Workpool, journal: Journal) -> None:
    """Pause the pool before works come."""
    pool.pause()
    hold_all(pool, 30)
    assert [] == journal.begins(pool.name)


@pytest.mark.item("B12")
@pytest.mark.parametrize(("block", "count"), [(fill, 2), (pause, 0)])
def test_beside_a_blocked_pool_the_works_of_another_start_at_once(
    live: Callable[..., LiveRunner],
    journal: Journal,
    block: Callable[[Workpool, Journal], None],
    count: int,
) -> None:
    blocked, free = fresh("blocked", max_parallelism=2), fresh("free")
    live("--threads", "3", **NO_NETS)
    block(blocked, journal)

    def enqueue(number: int) -> int:
        free.enqueue_action(functions.add, {"a": number})
        return begun(journal, free, number)

    assert [1, 2, 3] == [enqueue(number) for number in (1, 2, 3)]
    assert count == len(journal.begins(blocked.name))
    assert 30 - count == blocked.queue_length()


@pytest.mark.item("B13")
@pytest.mark.parametrize("limit", [0, 2], ids=["closed", "full"])
def test_as_many_works_start_at_once_as_the_limit_is_raised_by(
    live: Callable[..., LiveRunner], journal: Journal, limit: int
) -> None:
    pool, witness = fresh(max_parallelism=limit), fresh("witness")
    live(**NO_NETS)
    works = hold_all(pool, 30)
    begun(journal, pool, limit)
    pass_by(witness, journal)
    before = pool.debug_counts()

    def raise_to(highest: int) -> int:
        pool.update(max_parallelism=highest)
        begun(journal, pool, highest)
        pass_by(witness, journal)
        return pool.debug_counts()["inProgressWork"]

    steps = [limit + 1, limit + 4, limit + 20]
    after = [raise_to(highest) for highest in steps]

    assert (30 - limit, limit) == (before["pendingStart"], before["inProgressWork"])
    assert steps == after
    assert set(ids(works)[: limit + 20]) == set(journal.begins(pool.name))


@pytest.mark.item("B13")
@IN_A_TRANSACTION
def test_a_pool_of_limit_0_stores_works_and_starts_none(journal: Journal) -> None:
    pool = fresh(max_parallelism=0)

    works = pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(3)])
    ran = drain(pool.name)

    assert 0 == ran
    assert 3 == pool.queue_length()
    assert [("slots",)] * 3 == [pool.explain(work).failed for work in works]
    assert [] == journal.lines()
