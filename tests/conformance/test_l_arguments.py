"""Group L: arguments that are refused at enqueue, and how they are given."""

from __future__ import annotations

import math
from collections import OrderedDict
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from django_workpool.choices import CompletionStatus
from django_workpool.exceptions import InvalidArgumentsError, InvalidOptionError
from django_workpool.testing import drain
from tests.app.enqueue_functions import describe, greet, return_secretly
from tests.app.models import Counter
from tests.conformance.pools import fresh
from tests.conformance.tables import nothing_written
from tests.conformance.values import nested

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.models import Work

pytestmark = pytest.mark.django_db(databases=["default", "other"])


def received(pool: Workpool, work: Work) -> str:
    """Run the work and return the text in which ``describe`` shows its arguments."""
    drain(pool.name)
    return str(pool.result(work).return_value)


@pytest.mark.item("L1")
@pytest.mark.parametrize("given", [(), (None,), ({},)], ids=["nothing", "None", "{}"])
def test_without_arguments_the_function_is_called_without_arguments(given: Any) -> None:
    pool = fresh()

    work = pool.enqueue_action(describe, *given)
    (second,) = pool.enqueue_action_batch(describe, given or [None])

    assert "{}" == received(pool, work)
    assert "{}" == pool.result(second).return_value


@pytest.mark.item("L1")
@pytest.mark.parametrize(
    "mapping",
    [MappingProxyType({"name": "Ada"}), OrderedDict(name="Ada")],
    ids=["proxy", "ordered"],
)
def test_any_mapping_gives_the_keyword_arguments(mapping: Any) -> None:
    pool = fresh()

    work = pool.enqueue_action(greet, mapping)

    assert "Hello, Ada!" == received(pool, work)


@pytest.mark.item("L1")
@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["Ada"], "list"),
        (("name", "Ada"), "tuple"),
        ("Ada", "str"),
        (7, "int"),
        (False, "bool"),
        ([("name", "Ada")], "list"),
        ({"Ada"}, "set"),
        (object(), "object"),
    ],
)
def test_anything_but_a_mapping_is_refused(args: Any, found: str) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidArgumentsError) as caught:
        pool.enqueue_action(greet, args)

    assert ("args", found) == (caught.value.path, caught.value.found)
    assert "mapping of keyword arguments" in str(caught.value)


@pytest.mark.item("L2")
@pytest.mark.parametrize(
    ("args", "parameter"),
    [
        ({}, "name"),
        ({"greeting": "Hi"}, "name"),
        ({"name": "Ada", "salute": "Hi"}, "salute"),
        ({"name": "Ada", "self": 1}, "self"),
        ({"name": "Ada", "": 1}, ""),
    ],
    ids=["none", "missing", "misspelled", "self", "empty"],
)
def test_a_missing_or_unknown_argument_is_refused_by_name(
    args: dict[str, Any], parameter: str
) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidArgumentsError) as caught:
        pool.enqueue_action(greet, args)

    assert f'args["{parameter}"]' == caught.value.path
    assert caught.value.path in str(caught.value)
    assert "greeting, marks, name" in str(caught.value)


@pytest.mark.item("L2")
@pytest.mark.parametrize(
    ("args", "result"),
    [
        ({"name": "Ada"}, "Hello, Ada!"),
        ({"name": "Ada", "greeting": "Hi"}, "Hi, Ada!"),
        ({"marks": 3, "name": "Ada"}, "Hello, Ada!!!"),
    ],
)
def test_defaults_may_be_left_out(args: dict[str, Any], result: str) -> None:
    pool = fresh()

    work = pool.enqueue_action(greet, args)

    assert result == received(pool, work)


@pytest.mark.item("L2")
def test_a_function_of_any_keyword_takes_any_name() -> None:
    pool = fresh()
    names = {"self": 1, "fn": 2, "pool": 3, "args": [4], "kwargs": {"a": 5}, "né": 6}

    work = pool.enqueue_action(describe, names)

    assert repr(names) == received(pool, work)


@pytest.mark.item("L3")
@pytest.mark.parametrize(
    ("wrap", "place"),
    [
        (lambda value: value, ""),
        (lambda value: [1, {"a": value}], '[1]["a"]'),
        (lambda value: {"a": [[], [None, value]]}, '["a"][1][1]'),
        (lambda value: nested(300, value), '[0]["in"][0]["in"]'),
    ],
    ids=["top", "list", "mapping", "deep"],
)
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: math.nan, "float nan"),
        (lambda: math.inf, "float inf"),
        (lambda: -math.inf, "float -inf"),
        (lambda: Decimal("NaN"), "Decimal"),
        (lambda: {1: "a"}, "int key"),
        (lambda: {None: "a"}, "NoneType key"),
        (lambda: "a\x00b", "NUL"),
        (lambda: {"\x00": 1}, "NUL"),
        (lambda: "\ud800", "lone surrogate"),
        (lambda: b"bytes", "bytes"),
        (lambda: {1, 2}, "set"),
        (lambda: (1, 2), "tuple"),
        (lambda: Counter(name="a"), "tests.app.models.Counter"),
        (lambda: object, "type"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_stored_exactly_is_refused_with_path_and_type(
    wrap: Callable[[object], Any], place: str, make: Callable[[], object], found: str
) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidArgumentsError) as caught:
        pool.enqueue_action(describe, {"value": wrap(make())})

    error = caught.value
    assert error.path.startswith('args["value"]')
    assert error.path.removeprefix('args["value"]').startswith(place)
    assert found in error.found
    assert found in str(error)
    assert "Pass None, bool, int" in str(error)


@pytest.mark.item("L4")
@pytest.mark.parametrize("option", ["context", "metadata"])
@pytest.mark.parametrize("value", [math.nan, b"bytes", {"a": {1}}, {"a": 1}])
def test_context_and_metadata_are_refused_whole_as_nothing_would_keep_them(
    option: str, value: Any
) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        pool.enqueue_action(describe, None, **{option: value})

    assert option == caught.value.value
    assert option in str(caught.value)


@pytest.mark.item("L3")
def test_a_result_that_cannot_be_stored_ends_the_work_as_error() -> None:
    pool = fresh()
    work = pool.enqueue_action(return_secretly)

    drain(pool.name)

    result = pool.result(work)
    assert CompletionStatus.ERROR == result.kind
    assert "InvalidArgumentsError" == result.error_type
    assert "result: found set" in result.error
    assert result.return_value is None
