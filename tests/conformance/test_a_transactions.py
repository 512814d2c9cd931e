"""Group A: an enqueue is part of the caller's transaction."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

import pytest
from django.db import DatabaseError, transaction

from django_workpool.choices import CompletionStatus, WorkKind
from django_workpool.engine import kick
from django_workpool.engine.loop import has_something_to_do
from django_workpool.models import PendingStart, Work
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import enqueue_functions, functions
from tests.conformance.pools import fresh
from tests.conformance.rollbacks import rolled_back
from tests.conformance.tables import count, nothing_written
from tests.conformance.threads import closing, elsewhere, together
from tests.journal import STUCK, ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.engine.loop import Passed
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def enqueue_and_roll_back(pool: Workpool) -> list[Work]:
    """Roll the whole transaction back."""
    with transaction.atomic():
        works = enqueue_all(pool)
        transaction.set_rollback(True)
    return works


def enqueue_and_raise(pool: Workpool) -> list[Work]:
    """Let an error end the transaction."""
    works: list[Work] = []
    with rolled_back():
        works += enqueue_all(pool)
    return works


def enqueue_in_savepoint(pool: Workpool) -> list[Work]:
    """Roll a savepoint back and commit the transaction around it."""
    with transaction.atomic():
        return enqueue_and_raise(pool)


def enqueue_all(pool: Workpool) -> list[Work]:
    """Enqueue by every method."""
    return [
        pool.enqueue_action(functions.add, {"a": 1}),
        pool.enqueue_mutation(functions.effect),
        *pool.enqueue_action_batch(functions.add, [{"a": 2}, {"a": 3}]),
        *pool.enqueue_mutation_batch(functions.effect, [None]),
    ]


@pytest.mark.item("A3")
@pytest.mark.parametrize(
    "enqueue", [enqueue_and_roll_back, enqueue_and_raise, enqueue_in_savepoint]
)
def test_a_rollback_leaves_no_row_and_nothing_runs(
    enqueue: Callable[[Workpool], list[Work]], journal: Journal
) -> None:
    pool = fresh()

    with nothing_written():
        works = enqueue(pool)

    assert 5 == len(works)
    assert (0, 0) == (count("Work"), count("PendingStart"))
    assert [None] * 5 == pool.status_batch(works)
    assert 0 == drain(pool.name)
    assert [] == journal.lines()


@pytest.mark.item("A3")
def test_a_rolled_back_savepoint_takes_only_its_own_enqueues(journal: Journal) -> None:
    pool = fresh()

    with transaction.atomic():
        before = pool.enqueue_action(functions.add, {"a": 1})
        with rolled_back():
            gone = pool.enqueue_action(functions.add, {"a": 2})
        after = pool.enqueue_action(functions.add, {"a": 3})
    drain(pool.name)

    assert ids([before, after]) == journal.begins(pool.name)
    assert [None] == pool.status_batch([gone])
    assert [2, 4] == [pool.result(work).return_value for work in (before, after)]


@pytest.mark.item("A3")
def test_a_work_enqueued_before_a_caught_error_of_the_database_is_kept() -> None:
    pool = fresh()

    with transaction.atomic():
        work = pool.enqueue_action(functions.add, {"a": 1})
        with pytest.raises(DatabaseError), transaction.atomic():
            Work.objects.using("default").extra(where=["no_such_column = 1"]).count()
    drain(pool.name)

    assert 2 == pool.result(work).return_value


@pytest.mark.item("A4")
def test_no_other_connection_sees_an_open_enqueue_and_it_starts_after_the_commit(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    first = pool.enqueue_action(functions.add, {"a": 0})
    live()
    pool.wait(first, timeout=30)

    with transaction.atomic():
        work = pool.enqueue_action(functions.add, {"a": 1})
        mine = pool.status(work)
        seen = elsewhere(
            lambda: (
                pool.status_batch([work]),
                Work.objects.using("default").count(),
                PendingStart.objects.using("default").count(),
                has_something_to_do("default", pool.name),
                [one.pool for one in kick.overview("default") if one.has_rows],
            )
        )
        begun = journal.begins(pool.name)
    end = pool.wait(work, timeout=30)

    assert WorkKind.PENDING == mine.kind
    assert ([None], 1, 0, False, []) == seen
    assert ids([first]) == begun
    assert CompletionStatus.SUCCESS == end.completion_status
    assert ids([first, work]) == journal.begins(pool.name)


@pytest.mark.item("A4")
# On SQLite an open transaction that has written keeps every pass out.
@pytest.mark.vendor("postgresql")
def test_passes_that_run_while_an_enqueue_is_open_start_everything_but_it(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    live()

    def meanwhile() -> list[Work]:
        others = pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(20)])
        ends = [pool.wait(other, timeout=30) for other in others]
        assert {WorkKind.COMPLETED} == {end.kind for end in ends}
        return others

    with transaction.atomic():
        work = pool.enqueue_action(functions.add, {"a": 1})
        others = elsewhere(meanwhile)
        begun = journal.begins(pool.name)
    pool.wait(work, timeout=30)

    assert sorted(ids(others)) == sorted(begun)
    assert ids([work]) == journal.begins(pool.name)[20:]


@pytest.mark.item("A4")
# Here the pass waits for the lock, so it reads after the commit.
@pytest.mark.vendor("sqlite")
def test_a_pass_begun_while_an_enqueue_is_open_waits_for_its_commit() -> None:
    pool = fresh()
    inline_executor()
    begun = Event()

    def pass_() -> Passed | None:
        begun.set()
        return run_pass(pool.name, with_worker=False)

    with ThreadPoolExecutor(max_workers=1) as other:
        with transaction.atomic():
            work = pool.enqueue_action(functions.add, {"a": 1})
            waiting = other.submit(closing, pass_)
            assert begun.wait(STUCK)
            is_done = waiting.done()
        passed = waiting.result()

    assert not is_done
    assert passed is not None
    assert [work.pk] == [start.work_id for start in passed.plan.starts]


@pytest.mark.item("A10")
def test_100_callers_together_store_100_works_in_a_saturated_pool(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)
    held = pool.enqueue_action(functions.hold)
    live("--processes", "2")
    journal.wait_begun()

    # A server has some 100 sessions; each thread is two callers, one after the other.
    works = together(
        lambda n: pool.enqueue_action(functions.add, {"a": n}), callers=100, sessions=50
    )

    assert 100 == len({work.pk for work in works})
    assert 100 == pool.queue_length()
    assert {work.pk for work in works} | {held.pk} == set(
        Work.objects.using("default").values_list("pk", flat=True)
    )
    journal.release()
    ends = [pool.wait(work, timeout=60) for work in works]
    assert {CompletionStatus.SUCCESS} == {end.completion_status for end in ends}
    assert sorted(ids([held, *works])) == sorted(journal.begins(pool.name))
    assert 1 == journal.peak(pool.name)


@pytest.mark.item("A11")
def test_an_enqueue_inside_a_mutation_exists_once_the_mutation_has_committed(
    journal: Journal,
) -> None:
    pool = fresh()
    outer = pool.enqueue_mutation(
        enqueue_functions.enqueue_inside, {"pool": pool.name, "name": "Ada"}
    )

    drain(pool.name)

    (line,) = journal.lines("enqueued")
    assert line["inner"] == pool.result(outer).return_value
    assert "Hello, Ada!" == pool.result(line["inner"]).return_value
    assert [str(outer.pk), line["inner"]] == journal.begins(pool.name)


@pytest.mark.item("A11")
def test_an_enqueue_inside_a_mutation_that_fails_does_not_exist(
    journal: Journal,
) -> None:
    pool = fresh()
    outer = pool.enqueue_mutation(
        enqueue_functions.enqueue_inside,
        {"pool": pool.name, "name": "Ada", "fails": True},
    )

    drain(pool.name)

    (line,) = journal.lines("enqueued")
    assert CompletionStatus.ERROR == pool.result(outer).kind
    assert [None] == pool.status_batch([line["inner"]])
    assert ids([outer]) == journal.begins(pool.name)
    assert (1, 0) == (count("Work"), count("PendingStart"))


@pytest.mark.item("A11")
def test_an_enqueue_inside_a_mutation_is_unseen_until_its_commit() -> None:
    pool = fresh()
    outer = pool.enqueue_mutation(
        enqueue_functions.enqueue_inside, {"pool": pool.name, "name": "Ada"}
    )
    run_pass(pool.name)
    executor = inline_executor()
    (assignment,) = executor.fetch()

    with transaction.atomic():
        ending = executor.execute(assignment)
        seen = elsewhere(lambda: Work.objects.using("default").count())

    assert 1 == seen
    assert 2 == count("Work")
    executor.finish(ending)
    drain(pool.name)
    inner = pool.result(outer).return_value
    assert WorkKind.COMPLETED == pool.status(inner).kind


@pytest.mark.item("A11")
def test_an_enqueue_inside_a_mutation_of_a_worker_starts_after_its_commit(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh(max_parallelism=1)
    live()
    kept, lost = pool.enqueue_mutation_batch(
        enqueue_functions.enqueue_inside,
        [
            {"pool": pool.name, "name": "Ada"},
            {"pool": pool.name, "name": "Bob", "fails": True},
        ],
    )

    ends = [pool.wait(work, timeout=30) for work in (kept, lost)]

    assert ["success", "error"] == [end.completion_status for end in ends]
    inner = pool.result(kept).return_value
    assert "success" == pool.wait(inner, timeout=30).completion_status
    assert 3 == count("Work")
