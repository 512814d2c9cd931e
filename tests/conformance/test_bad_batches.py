"""Must hold: a batch is stored whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import DatabaseError, connections, transaction

from django_workpool.exceptions import (
    ArgumentsTooLargeError,
    InvalidArgumentsError,
    WorkpoolError,
)
from django_workpool.testing import drain
from tests.app.enqueue_functions import greet, needs_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

from tests.app import functions
from tests.conformance.messages import missing
from tests.conformance.pools import fresh
from tests.conformance.tables import nothing_written

pytestmark = pytest.mark.django_db(databases=["default", "other"])


BAD_ELEMENTS = {
    "no mapping": (["Ada"], InvalidArgumentsError, ["list", "mapping of keyword"]),
    "missing": ({}, InvalidArgumentsError, ['["text"]', "nothing", "takes by keyword"]),
    "unstorable": (
        {"text": [b""]},
        InvalidArgumentsError,
        ['["text"][0]', "bytes", "Pass None, bool"],
    ),
    "too large": (
        {"text": "x" * 10**6},
        ArgumentsTooLargeError,
        ["enqueue_functions.needs_text", "1000000", "primary key or its path"],
    ),
}


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    ("element", "kind", "words"), BAD_ELEMENTS.values(), ids=BAD_ELEMENTS.keys()
)
def test_a_batch_with_one_bad_element_is_refused_and_writes_nothing(
    element: Any, kind: type[WorkpoolError], words: list[str], position: int
) -> None:
    pool = fresh()
    batch: list[Any] = [{"text": "a"}, {"text": "b"}]
    batch.insert(position, element)

    with nothing_written(), pytest.raises(kind) as caught:
        pool.enqueue_action_batch(needs_text, batch)

    assert [] == missing(words, caught.value)
    assert 0 == pool.queue_length()


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_refusal_of_a_batch_names_the_position(position: int) -> None:
    pool = fresh()
    batch: list[Any] = [{"name": "Ada"}, {"name": "Bob"}]
    batch.insert(position, {"name": {1}})

    with pytest.raises(InvalidArgumentsError) as caught:
        pool.enqueue_action_batch(greet, batch)

    assert f'[{position}]["name"]' in caught.value.path


@pytest.mark.parametrize("batch", [None, 7, object()], ids=["None", "7", "object"])
def test_a_batch_that_is_no_series_is_refused(batch: Any) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidArgumentsError) as caught:
        pool.enqueue_action_batch(greet, batch)

    assert [] == missing([type(batch).__name__, "mapping"], caught.value)


@pytest.mark.parametrize("batch", [{"name": "Ada"}, "Ada"], ids=["mapping", "str"])
def test_a_single_call_given_as_batch_is_refused(batch: Any) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidArgumentsError) as caught:
        pool.enqueue_action_batch(greet, batch)

    assert "mapping" in str(caught.value)


def test_an_error_of_the_callers_own_generator_writes_nothing() -> None:
    pool = fresh()

    def batch() -> Iterator[dict[str, str]]:
        yield {"name": "Ada"}
        raise KeyError("mine")

    with nothing_written(), pytest.raises(KeyError, match="mine"):
        pool.enqueue_action_batch(greet, batch())


def test_a_refused_batch_leaves_the_callers_transaction_usable() -> None:
    pool = fresh()

    with transaction.atomic():
        before = pool.enqueue_action(functions.add, {"a": 1})
        with pytest.raises(InvalidArgumentsError):
            pool.enqueue_action_batch(functions.add, [{"a": 2}, {"a": {3}}])
        after = pool.enqueue_action(functions.add, {"a": 4})
    drain(pool.name)

    assert 0 == pool.queue_length()
    assert [2, 5] == [pool.result(work).return_value for work in (before, after)]


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
@pytest.mark.parametrize("is_nested", [False, True], ids=["autocommit", "atomic"])
def test_a_batch_that_the_database_refuses_halfway_writes_nothing(
    *, is_nested: bool
) -> None:
    pool = fresh()
    pool.update()  # the row of the pool is not what is asked here
    inserts: list[str] = []

    def refuse_the_second_chunk(execute: Any, sql: str, *rest: Any) -> Any:
        inserts.extend([sql] * ("INSERT INTO workpool_work " in sql))
        if len(inserts) == 2:
            raise DatabaseError("disk full")
        return execute(sql, *rest)

    def enqueue() -> None:
        with connections["default"].execute_wrapper(refuse_the_second_chunk):
            pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(1_500)])

    with nothing_written(), pytest.raises(DatabaseError, match="disk full"):
        in_transaction(enqueue) if is_nested else enqueue()

    assert 2 == len(inserts)


def in_transaction(call: Callable[[], None]) -> None:
    """Call inside a transaction of the caller's."""
    with transaction.atomic():
        call()
