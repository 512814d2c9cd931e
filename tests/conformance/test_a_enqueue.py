"""Group A: what an enqueue stores, where, and at which cost."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_workpool.choices import CompletionStatus, WorkKind
from django_workpool.models import PendingStart, Pool, Work
from django_workpool.testing import drain
from tests.app import enqueue_functions, functions
from tests.app.models import Effect
from tests.conformance.pools import fresh
from tests.conformance.rollbacks import rolled_back
from tests.conformance.tables import count, no_query, nothing_written
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_workpool import Workpool
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])
# Without a commit to look at there is nothing to flush.
IN_A_TRANSACTION = pytest.mark.django_db(databases=["default", "other"])


@contextmanager
def statements(alias: str = "default") -> Iterator[list[str]]:
    """Collect the statements of the block, without their parameters."""
    found: list[str] = []

    def collect(execute: Any, sql: str, *rest: Any) -> Any:
        found.append(sql)
        return execute(sql, *rest)

    with connections[alias].execute_wrapper(collect):
        yield found


@pytest.mark.item("A1")
def test_an_enqueued_action_is_stored_as_pending_and_does_not_run(
    journal: Journal,
) -> None:
    pool = fresh("emails")
    before = datetime.now(tz=UTC)

    work = pool.enqueue_action(functions.add, {"a": 2, "b": 3})

    assert 7 == work.pk.version
    born = datetime.fromtimestamp((work.pk.int >> 80) / 1000, tz=UTC)
    assert abs((born - before).total_seconds()) < 60
    (stored,) = Work.objects.using("default").all()
    assert (work.pk, pool.name, "action") == (stored.pk, stored.pool, stored.fn_type)
    assert ("tests.app.functions.add", "add") == (stored.fn_handle, stored.fn_name)
    (start,) = PendingStart.objects.using("default").all()
    assert (work.pk, pool.name) == (start.work_id, start.pool)
    status = pool.status(work)
    assert (WorkKind.PENDING, 0) == (status.kind, status.previous_attempts)
    assert status.completion_status is None
    assert [] == journal.lines()


@pytest.mark.item("A1")
@IN_A_TRANSACTION
def test_the_returned_work_is_the_stored_row() -> None:
    pool = fresh()

    work = pool.enqueue_action(functions.add, {"a": 2}, name="a sum")

    stored = Work.objects.using("default").get(pk=work.pk)
    fields = [
        field.attname for field in Work._meta.fields if field.name != "enqueued_at"
    ]
    assert [getattr(stored, name) for name in fields] == [
        getattr(work, name) for name in fields
    ]
    assert "a sum" == stored.fn_name
    assert "default" == work._state.db


@pytest.mark.item("A2")
@IN_A_TRANSACTION
def test_a_drained_action_ran_once_with_its_arguments(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.add, {"a": 2, "b": 3})

    ran = drain(pool.name)

    assert 1 == ran
    assert ids([work]) == journal.begins(pool.name)
    status = pool.status(work)
    assert WorkKind.COMPLETED == status.kind
    assert CompletionStatus.SUCCESS == status.completion_status
    assert 5 == pool.result(work).return_value
    assert 0 == drain(pool.name)


@pytest.mark.item("A5")
@IN_A_TRANSACTION
def test_each_kind_is_enqueued_by_its_own_method_and_succeeds() -> None:
    pool = fresh()
    works = [
        pool.enqueue_action(functions.add, {"a": 1}),
        pool.enqueue_action(functions.async_echo, {"value": "async"}),
        pool.enqueue_mutation(functions.effect, {"what": "kept"}),
        *pool.enqueue_action_batch(functions.add, [{"a": 2}]),
        *pool.enqueue_mutation_batch(functions.effect, [{"what": "too"}]),
    ]

    drain(pool.name)

    results = [pool.result(work) for work in works]
    assert [CompletionStatus.SUCCESS] * 5 == [result.kind for result in results]
    assert [2, "async", "kept", 3, "too"] == [result.return_value for result in results]
    assert ["action", "action", "mutation", "action", "mutation"] == [
        work.fn_type for work in works
    ]
    assert {"kept", "too"} == set(Effect.objects.values_list("what", flat=True))


@pytest.mark.item("A7")
@IN_A_TRANSACTION
@pytest.mark.parametrize("batch", [[], (), iter([])], ids=["list", "tuple", "iterator"])
def test_an_empty_batch_returns_an_empty_list_and_makes_no_query(batch: Any) -> None:
    pool = fresh()

    with no_query():
        actions = pool.enqueue_action_batch(functions.add, batch)
        mutations = pool.enqueue_mutation_batch(functions.effect, batch)

    assert ([], []) == (actions, mutations)
    assert 0 == count("Pool")


def enqueue_one(pool: Workpool) -> list[Work]:
    """Enqueue by the method for one."""
    return [pool.enqueue_action(functions.echo, {"value": 1})]


def enqueue_two(pool: Workpool) -> list[Work]:
    """Enqueue by the method for several."""
    return pool.enqueue_action_batch(functions.echo, [{"value": 1}, {"value": 2}])


@pytest.mark.item("A8")
@pytest.mark.parametrize("enqueue", [enqueue_one, enqueue_two])
def test_everything_of_a_pool_on_another_alias_is_in_that_database(
    enqueue: Callable[[Workpool], list[Work]],
) -> None:
    pool = fresh("abroad", using="other", max_parallelism=3)

    works = enqueue(pool)

    wanted = {work.pk for work in works}
    assert wanted == set(Work.objects.using("other").values_list("pk", flat=True))
    starts = PendingStart.objects.using("other").values_list("work_id", flat=True)
    assert wanted == set(starts)
    assert 3 == Pool.objects.using("other").get(pk=pool.name).max_parallelism
    assert 0 == sum(map(count, ["Work", "PendingStart", "Pool", "MainLoop"]))

    drain(pool.name)

    assert {WorkKind.COMPLETED} == {pool.status(work).kind for work in works}
    assert len(works) == count("CompletedWork", "other")
    assert 1 == count("MainLoop", "other")
    assert 0 == sum(map(count, ["CompletedWork", "MainLoop", "Worker"]))


@pytest.mark.item("A8")
def test_only_a_rollback_on_the_alias_of_the_pool_removes_an_enqueue() -> None:
    pool = fresh("abroad", using="other")

    with rolled_back("other"):
        gone = pool.enqueue_action(functions.add, {"a": 1})
    with rolled_back("default"):
        kept = pool.enqueue_action(functions.add, {"a": 2})

    assert [None] == pool.status_batch([gone])
    assert [kept.pk] == list(Work.objects.using("other").values_list("pk", flat=True))
    assert 1 == drain(pool.name)
    assert 3 == pool.result(kept).return_value


@pytest.mark.item("A8")
def test_a_second_handle_of_the_name_finds_the_declared_database() -> None:
    pool = fresh("abroad", using="other")

    with nothing_written():
        again = type(pool)(pool.name)
    work = again.enqueue_action(functions.add, {"a": 1})

    assert ("other", 1) == (again.alias, count("Work", "other"))
    assert again.status(work) == pool.status(work)


@pytest.mark.item("A9")
def test_the_queries_of_a_batch_are_bounded_by_chunks_of_4_mb() -> None:
    pool = fresh()
    pool.enqueue_action(enqueue_functions.measure)
    texts = [{"text": f"{n:04}" + "x" * 4996} for n in range(2_000)]

    with statements() as one:
        pool.enqueue_action_batch(enqueue_functions.measure, texts[:1])
    with statements() as small:
        pool.enqueue_action_batch(enqueue_functions.measure, texts[:200])
    with statements() as large:
        works = pool.enqueue_action_batch(enqueue_functions.measure, texts)

    assert len(one) == len(small)
    # 10 MB in chunks of 4 MB are three chunks; a chunk has two statements at most.
    assert len(one) < len(large) <= len(one) + 2 * 2
    assert 2_000 == len({work.pk for work in works})
    starts = PendingStart.objects.using("default").order_by("id")
    assert [work.pk for work in works] == list(
        starts.values_list("work_id", flat=True)[201 + 1 :]
    )


@pytest.mark.item("A9")
@IN_A_TRANSACTION
def test_every_work_of_a_large_batch_gets_its_own_arguments() -> None:
    pool = fresh(max_parallelism=10_000)
    texts = [{"text": "x" * (5_000 + n)} for n in range(2_000)]

    works = pool.enqueue_action_batch(enqueue_functions.measure, texts)
    drain(pool.name)

    ends = [pool.result(works[n]).return_value for n in (0, 1, 799, 1_000, 1_999)]
    assert [5_000, 5_001, 5_799, 6_000, 6_999] == [end["text"] for end in ends]
    assert 2_000 == count("CompletedWork")


@pytest.mark.item("A9")
def test_an_enqueue_makes_the_same_statements_before_a_backlog_of_10_000() -> None:
    pool = fresh()
    pool.enqueue_action(functions.add, {"a": 0})

    with statements() as alone:
        pool.enqueue_action(functions.add, {"a": 1})
    pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(10_000)])
    with statements() as behind:
        pool.enqueue_action(functions.add, {"a": 2})

    assert alone == behind
    assert 10_003 == pool.queue_length()
