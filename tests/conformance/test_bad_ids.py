"""Must hold: ids that name no work, and questions asked too early, are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from django_workpool import Workpool, current_work
from django_workpool.exceptions import (
    NotInWorkError,
    WorkNotFinishedError,
    WorkNotFoundError,
)
from django_workpool.testing import drain, run_pass

if TYPE_CHECKING:
    from django_workpool.models import Work

from tests.app import functions
from tests.conformance.messages import missing
from tests.conformance.pools import fresh
from tests.conformance.tables import nothing_written

pytestmark = pytest.mark.django_db(databases=["default", "other"])


IDS: dict[str, Any] = {
    "malformed": "no id",
    "empty": "",
    "NUL": "\x00",
    "long": "7" * 10_000,
    "unknown": uuid4(),
    "unknown text": str(uuid4()),
    "int": 7,
    "bytes": uuid4().bytes,
    "None": None,
    "list": [],
}


@pytest.mark.parametrize("method", ["status", "result", "cancel", "explain"])
@pytest.mark.parametrize("work_id", IDS.values(), ids=IDS.keys())
def test_an_id_that_names_no_work_is_refused(method: str, work_id: Any) -> None:
    pool = fresh()
    pool.enqueue_action(functions.add, {"a": 1})

    with nothing_written(), pytest.raises(WorkNotFoundError) as caught:
        getattr(pool, method)(work_id)

    assert str(caught.value.work_id) in {str(work_id), repr(work_id)}
    assert [] == missing(["There is no work", "Check the id, the pool"], caught.value)


@pytest.mark.parametrize("method", ["status", "result", "cancel", "explain"])
def test_a_work_of_another_pool_is_refused(method: str) -> None:
    pool, other = fresh(), fresh()
    pending, ended = other.enqueue_action_batch(functions.add, [{"a": 1}, {"a": 2}])
    other.update(max_parallelism=1)
    run_pass(other.name)
    drain(other.name)

    for_each = [refusal(pool, method, work) for work in (pending, ended)]

    assert [pending.pk, ended.pk] == for_each


def refusal(pool: Workpool, method: str, work: Work) -> UUID | str:
    """Return the id that the refusal names."""
    with nothing_written(), pytest.raises(WorkNotFoundError) as caught:
        getattr(pool, method)(work)
    assert str(work.pk) in str(caught.value)
    return caught.value.work_id


def test_ids_that_name_no_work_are_none_in_a_batch() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.add, {"a": 1})
    elsewhere = fresh().enqueue_action(functions.add, {"a": 2})

    found = pool.status_batch([*IDS.values(), elsewhere, work])

    assert [None] * (len(IDS) + 1) == found[:-1]
    assert pool.status(work) == found[-1]


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_waiting_for_an_id_that_names_no_work_is_refused() -> None:
    pool = fresh()

    messages = [wait_refusal(pool, work_id) for work_id in IDS.values()]

    assert [True] * len(IDS) == ["There is no work" in text for text in messages]


def wait_refusal(pool: Workpool, work_id: Any) -> str:
    """Return the message."""
    with pytest.raises(WorkNotFoundError) as caught:
        pool.wait(work_id, timeout=30)
    return str(caught.value)


# --- what is asked at the wrong time or place ---------------------------------------


def test_the_result_of_a_work_that_has_not_ended_is_refused() -> None:
    pool = fresh(max_parallelism=1)
    works = pool.enqueue_action_batch(functions.add, [{"a": 1}, {"a": 2}])
    run_pass(pool.name)

    kinds = [unfinished(pool, work) for work in works]

    assert ["in_progress", "pending"] == kinds


def unfinished(pool: Workpool, work: Work) -> str:
    """Return the kind that the refusal names."""
    with pytest.raises(WorkNotFinishedError) as caught:
        pool.result(work)
    assert work.pk == caught.value.work_id
    words = [str(work.pk), caught.value.kind, "Ask status() first, or wait()"]
    assert [] == missing(words, caught.value)
    return caught.value.kind


def test_current_work_outside_a_work_is_refused() -> None:
    with pytest.raises(NotInWorkError, match="Call current_work\\(\\) only inside"):
        current_work()


def test_a_direct_call_is_no_work() -> None:
    with pytest.raises(NotInWorkError, match="a direct call of that function"):
        functions.whoami()
