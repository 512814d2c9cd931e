"""Must hold: bad input is refused with what, which value and what to do.

Arguments, functions, kinds, limits and names of pools have their items: A13, A14, B2,
B3, B9 and L1 to L4, L8.
"""

from __future__ import annotations

import asyncio
import math
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from django.utils.connection import ConnectionDoesNotExist

from django_workpool import Workpool, action, mutation, options, query
from django_workpool.exceptions import (
    InvalidOptionError,
    NotRegisteredError,
    WorkpoolError,
)
from django_workpool.testing import run_pass
from tests.app import functions
from tests.app.enqueue_functions import describes, greet, measure, numbers
from tests.conformance.messages import missing
from tests.conformance.pools import fresh
from tests.conformance.tables import nothing_written

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.django_db(databases=["default", "other"])


# --- declared options ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("max_parallelism", -1, "from 0 (starts nothing) to 10000"),
        ("max_parallelism", "5", "from 0 (starts nothing) to 10000"),
        ("status_ttl", -0.001, "timedelta or seconds"),
        ("status_ttl", "1 day", "timedelta or seconds"),
        ("status_ttl", math.nan, "timedelta or seconds"),
        ("status_ttl", math.inf, "timedelta or seconds"),
        ("status_ttl", 10**12, "100 years"),
        ("status_ttl", timedelta.max, "100 years"),
        ("status_ttl", True, "None (kept for ever)"),
        ("log_level", "TRACE", "DEBUG, INFO, REPORT, WARNING, ERROR, or WARN"),
        ("log_level", "warning", "DEBUG, INFO, REPORT, WARNING, ERROR, or WARN"),
        ("log_level", 30, "DEBUG, INFO, REPORT, WARNING, ERROR, or WARN"),
        ("log_level", None, "DEBUG, INFO, REPORT, WARNING, ERROR, or WARN"),
        ("executor", "celery", "local"),
        ("executor", None, "local"),
        ("executor", {}, "local"),
    ],
)
def test_a_declared_option_is_refused_before_anything_is_declared(
    option: str, value: Any, advice: str
) -> None:
    name = f"never declared {option} {value!r}"[:60].strip()

    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        Workpool(name, **{option: value})

    assert option == caught.value.option
    assert [] == missing([option, repr(value), advice], caught.value)
    assert name not in options.declared()


def test_an_unknown_option_of_a_pool_is_refused() -> None:
    with pytest.raises(TypeError, match="parallelism"):
        Workpool("never declared", parallelism=5)  # type: ignore[call-arg]

    assert "never declared" not in options.declared()


def test_a_pool_on_an_unknown_alias_is_refused_when_it_is_used() -> None:
    pool = fresh(using="nowhere")

    with nothing_written(), pytest.raises(ConnectionDoesNotExist, match="nowhere"):
        pool.enqueue_action(functions.add, {"a": 1})


# --- decorators ---------------------------------------------------------------------


async def asynchronous() -> None:
    """Be ``async``."""


@pytest.mark.parametrize(
    ("decorator", "fn", "words"),
    [
        (mutation, asynchronous, ["mutation", "asynchronous", "@action"]),
        (
            action,
            numbers,
            ["action", "enqueue_functions.numbers", "generator", "use return"],
        ),
        (
            mutation,
            numbers,
            ["mutation", "enqueue_functions.numbers", "generator", "use return"],
        ),
        (
            query,
            numbers,
            ["query", "enqueue_functions.numbers", "generator", "use return"],
        ),
    ],
)
def test_a_function_that_could_not_run_is_refused_at_decoration(
    decorator: Callable[..., object], fn: Callable[..., object], words: list[str]
) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        decorator(fn)

    assert [] == missing(words, caught.value)
    with pytest.raises(NotRegisteredError):
        fresh().enqueue_action(fn)


# --- enqueue ------------------------------------------------------------------------

ENQUEUES = {
    "enqueue_action": (greet, {"name": "Ada"}),
    "enqueue_mutation": (functions.effect, {}),
    "enqueue_action_batch": (greet, [{"name": "Ada"}]),
    "enqueue_mutation_batch": (functions.effect, [{}]),
}


@pytest.mark.parametrize("method", ENQUEUES)
@pytest.mark.parametrize(
    "option",
    [
        "nickname",
        "run_at",
        "run_after",
        "priority",
        "retry",
        "timeout",
        "on_complete",
        "context",
        "metadata",
        "fn",
        "args",
        "kind",
        "batch",
        "self",
        "pool",
        "using",
    ],
)
def test_an_unknown_option_of_an_enqueue_is_refused(method: str, option: str) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        getattr(pool, method)(*ENQUEUES[method], **{option: 1})

    assert [] == missing([repr(option), "options are: name"], caught.value)


@pytest.mark.parametrize("method", ENQUEUES)
@pytest.mark.parametrize(
    "name", ["", "x" * 256, "a\nb", "a\x00b", "\ud800", 7, b"x", ["x"]], ids=repr
)
def test_a_name_that_people_could_not_read_is_refused(method: str, name: Any) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        getattr(pool, method)(*ENQUEUES[method], name=name)

    assert ("name", name) == (caught.value.option, caught.value.value)
    assert [] == missing([repr(name), "1 to 255 characters"], caught.value)


# --- pause and the twins ------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "option", "advice"),
    [
        ({"reason": "x" * 501}, "reason", "500 characters"),
        ({"reason": None}, "reason", "500 characters"),
        ({"reason": "a\x00b"}, "reason", "500 characters"),
        ({"reason": "\ud800"}, "reason", "500 characters"),
        ({"until": datetime(2100, 1, 1)}, "until", "aware datetime"),  # noqa: DTZ001
        ({"until": date(2100, 1, 1)}, "until", "aware datetime"),
        ({"until": "2100-01-01T00:00:00+00:00"}, "until", "aware datetime"),
        ({"until": 3600}, "until", "aware datetime"),
        (
            {"until": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))},
            "until",
            "aware datetime",
        ),
        (
            {"until": datetime.min.replace(tzinfo=timezone(timedelta(hours=12)))},
            "until",
            "aware datetime",
        ),
    ],
    ids=[
        "long",
        "None",
        "NUL",
        "surrogate",
        "naive",
        "date",
        "text",
        "seconds",
        "too-late",
        "too-early",
    ],
)
def test_a_pause_is_refused_and_does_not_pause(
    given: dict[str, Any], option: str, advice: str
) -> None:
    pool = fresh()
    pool.enqueue_action(functions.add, {"a": 1})
    run_pass(pool.name)

    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        pool.pause(**given)

    assert option == caught.value.option
    assert [] == missing([option, repr(given[option]), advice], caught.value)
    assert not pool.diagnostics().paused


TWINS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "function": ("enqueue_action", (describes,), {}),
    "kind": ("enqueue_mutation", (greet, {"name": "Ada"}), {}),
    "arguments": ("enqueue_action", (greet, {}), {}),
    "size": ("enqueue_action", (measure, {"text": "x" * 10**6}), {}),
    "option": ("enqueue_action", (greet, {"name": "Ada"}), {"nickname": 1}),
    "batch": ("enqueue_action_batch", (greet, [{"name": "Ada"}, {}]), {}),
    "mutations": ("enqueue_mutation_batch", (functions.effect, [7]), {}),
    "id": ("status", ("no id",), {}),
    "result": ("result", ("no id",), {}),
    "cancel": ("cancel", ("no id",), {}),
    "explain": ("explain", ("no id",), {}),
    "update": ("update", (), {"max_parallelism": -1}),
    "pause": ("pause", (7,), {}),
}


@pytest.mark.parametrize(("method", "args", "given"), TWINS.values(), ids=TWINS.keys())
def test_the_asynchronous_twin_refuses_the_same_with_the_same_words(
    method: str, args: tuple[Any, ...], given: dict[str, Any]
) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(WorkpoolError) as plain:
        getattr(pool, method)(*args, **given)
    with nothing_written(), pytest.raises(WorkpoolError) as twin:
        asyncio.run(getattr(pool, f"a{method}")(*args, **given))

    assert (type(plain.value), str(plain.value)) == (type(twin.value), str(twin.value))
