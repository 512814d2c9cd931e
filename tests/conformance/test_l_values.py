"""Group L: what is accepted arrives in the function exactly as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_workpool.exceptions import ArgumentsTooLargeError
from django_workpool.testing import drain
from tests.app import functions
from tests.app.enqueue_functions import describe, measure
from tests.conformance.pools import fresh
from tests.conformance.tables import nothing_written
from tests.conformance.values import LOOKALIKES, TYPED, UNUSUAL, nested, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(databases=["default", "other"])


def received(pool: Workpool, work: Work) -> str:
    """Run the work and return the text in which ``describe`` shows its arguments."""
    drain(pool.name)
    return str(pool.result(work).return_value)


@pytest.mark.item("L5")
@pytest.mark.parametrize("depth", [0, 1, 2, 120])
@pytest.mark.parametrize("value", TYPED.values(), ids=TYPED.keys())
def test_typed_values_arrive_with_type_and_value(value: object, depth: int) -> None:
    pool = fresh()
    args = {"value": nested(depth, value)}

    work = pool.enqueue_action(describe, args)
    echoed = pool.enqueue_action(functions.echo, args)

    assert repr(args) == received(pool, work)
    assert same(args["value"]) == same(pool.result(echoed).return_value)


@pytest.mark.item("L6")
@pytest.mark.parametrize("value", LOOKALIKES.values(), ids=LOOKALIKES.keys())
def test_what_looks_like_an_encoded_value_arrives_as_it_was(value: object) -> None:
    pool = fresh()
    args = {"value": value, "list": [value, [value]]}

    works = [pool.enqueue_action(describe, args), pool.enqueue_action(describe, value)]
    echoed = pool.enqueue_action(functions.echo, {"value": value})

    assert repr(args) == received(pool, works[0])
    assert repr(value) == pool.result(works[1]).return_value
    assert same(value) == same(pool.result(echoed).return_value)


@pytest.mark.item("L7")
@pytest.mark.parametrize("value", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_large_deep_and_unusual_values_arrive_unchanged(value: object) -> None:
    pool = fresh()

    work = pool.enqueue_action(describe, {"value": value})
    echoed = pool.enqueue_action(functions.echo, {"value": value})

    assert repr({"value": value}) == received(pool, work)
    assert same(value) == same(pool.result(echoed).return_value)


@pytest.mark.item("L5", "L6", "L7")
@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_all_of_them_arrive_in_a_worker_process_too(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh()
    live()
    args = {"typed": TYPED, "lookalikes": LOOKALIKES, "unusual": UNUSUAL}

    work = pool.enqueue_action(describe, args)
    echoed = pool.enqueue_action(functions.async_echo, {"value": args})
    for_ends = [pool.wait(one, timeout=30) for one in (work, echoed)]

    assert ["success"] * 2 == [end.completion_status for end in for_ends]
    assert repr(args) == pool.result(work).return_value
    assert same(args) == same(pool.result(echoed).return_value)


def of_size(size: int, letter: str = "x") -> dict[str, str]:
    """Return arguments whose stored form has exactly so many bytes."""
    frame = len('{"args":[],"kwargs":{"text":""}}')
    return {"text": letter * (size - frame)}


@pytest.mark.item("L8")
def test_arguments_of_1_mb_arrive_and_a_byte_more_is_refused() -> None:
    pool = fresh()

    work = pool.enqueue_action(measure, of_size(1_000_000))
    with nothing_written(), pytest.raises(ArgumentsTooLargeError) as caught:
        pool.enqueue_action(measure, of_size(1_000_001))

    error = caught.value
    assert "tests.app.enqueue_functions.measure" == error.function
    assert (1_000_001, 1_000_000) == (error.size, error.limit)
    assert all(text in str(error) for text in (error.function, "1000001", "1000000"))
    assert "primary key or its path" in str(error)
    drain(pool.name)
    assert {"text": 999_968} == pool.result(work).return_value


@pytest.mark.item("L8")
@pytest.mark.parametrize(
    ("args", "least"),
    [
        (of_size(10_000_000), 10_000_000),
        ({"text": "\x01" * 200_000}, 1_200_000),
        ({"text": "\U0001f600" * 260_000}, 1_040_000),
        ({f"k{n}": "" for n in range(100_000)}, 1_000_001),
        ({"text": [0] * 1_000_001}, 1_000_001),
    ],
    ids=["10 MB", "escapes", "four bytes", "keys", "values"],
)
def test_the_stored_bytes_count_not_the_characters(
    args: dict[str, Any], least: int
) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(ArgumentsTooLargeError) as caught:
        pool.enqueue_action(measure, args)

    assert least <= caught.value.size
    assert 1_000_000 == caught.value.limit
