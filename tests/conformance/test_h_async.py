"""Conformance H14: each blocking method has a twin for event loops.

The methods are found, not listed: a new one without a twin, or without a scene, fails.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from asgiref.sync import async_to_sync
from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from django_workpool import (
    InvalidArgumentsError,
    NotRegisteredError,
    WorkNotFoundError,
    Workpool,
    testing,
)
from django_workpool.exceptions import InvalidOptionError
from django_workpool.models import Pool, Work
from tests.app import functions
from tests.conformance.begun import begin
from tests.conformance.pools import fresh
from tests.conformance.tables import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PLAIN: Final = pytest.mark.django_db(databases=["default", "other"])
# To wait inside the transaction of a test is refused.
COMMITTING: Final = pytest.mark.django_db(
    transaction=True, databases=["default", "other"]
)

UNKNOWN: Final = "00000000-0000-7000-8000-000000000000"
# A bound on a loop that is blocked; one that is not needs milliseconds.
BLOCKED = 10.0


def _public(*, asynchronous: bool) -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in inspect.getmembers(Workpool, inspect.isfunction)
        if not name.startswith("_")
        and inspect.iscoroutinefunction(method) == asynchronous
    }


BLOCKING: Final = _public(asynchronous=False)
TWINS: Final = {
    name: "async_wait" if name == "wait" else f"a{name}" for name in BLOCKING
}


@dataclass(frozen=True)
class Scene:
    """What to call a method with: a call that succeeds, and one that it refuses."""

    good: Callable[[Work], tuple[Any, ...]] = lambda _: ()
    options: tuple[tuple[str, Any], ...] = ()
    bad: tuple[Any, ...] | None = None
    bad_options: tuple[tuple[str, Any], ...] = ()
    error: type[Exception] | None = None


def _the_work(work: Work) -> tuple[Any, ...]:
    return (work,)


_ACTION = Scene(
    good=lambda _: (functions.add, {"a": 1, "b": 2}),
    options=(("name", "sum"),),
    bad=(len,),
    error=NotRegisteredError,
)
_MUTATION = Scene(
    good=lambda _: (functions.effect, {"what": "twin"}),
    options=(("name", "trace"),),
    bad=(functions.effect, {"nothing": 1}),
    error=InvalidArgumentsError,
)
_ONE = Scene(good=_the_work, bad=(UNKNOWN,), error=WorkNotFoundError)
SCENES: Final = {
    "enqueue_action": _ACTION,
    "enqueue_mutation": _MUTATION,
    "enqueue_action_batch": replace(
        _ACTION,
        good=lambda _: (functions.add, [{"a": 1}, {"a": 2}]),
        bad=(functions.add, [{"a": 1}, {}]),
        error=InvalidArgumentsError,
    ),
    "enqueue_mutation_batch": replace(
        _MUTATION,
        good=lambda _: (functions.effect, [None, {"what": "two"}]),
        bad=(functions.effect, [None, 3]),
    ),
    "status": _ONE,
    "status_batch": Scene(good=lambda work: ([work, UNKNOWN, str(work.pk)],)),
    "result": _ONE,
    "wait": replace(_ONE, options=(("timeout", 5),)),
    "cancel": _ONE,
    "explain": _ONE,
    "update": Scene(
        options=(("max_parallelism", 7),),
        bad_options=(("max_parallelism", -1),),
        error=InvalidOptionError,
    ),
    "pause": Scene(
        good=lambda _: ("deploy",),
        options=(("until", None),),
        bad=(7,),
        error=InvalidOptionError,
    ),
    "resume": Scene(),
    "queue_length": Scene(),
    "debug_counts": Scene(),
    "diagnostics": Scene(),
    "running": Scene(),
}
EACH: Final = pytest.mark.parametrize("name", sorted(BLOCKING))


def _on_database(names: Iterable[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=COMMITTING if name == "wait" else PLAIN)
            for name in sorted(names)
        ],
    )


def _await(pool: Workpool, name: str, /, *args: Any, **options: Any) -> Any:
    """Return what a twin returns, awaited on an event loop in another thread."""
    return async_to_sync(getattr(pool, TWINS[name]))(*args, **options)


def _refused(
    pool: Workpool, name: str, /, *args: Any, **options: Any
) -> tuple[str, str]:
    """Return type and message of the error that a twin raises."""

    async def refused() -> tuple[str, str]:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - compared by the test
            await getattr(pool, TWINS[name])(*args, **options)
        return (raised.type.__name__, str(raised.value))

    try:
        return async_to_sync(refused)()
    finally:
        # The thread of the loop ends with the cycle that the error is in.
        gc.collect()


def _stage() -> tuple[Workpool, Work]:
    """Return a pool with a success, one work in progress, and one that waits."""
    pool = fresh("twins", max_parallelism=1)
    done = pool.enqueue_action(functions.echo, {"value": 5})
    testing.drain(pool.name)
    pool.enqueue_action_batch(functions.echo, [None, None])
    begin(pool)
    return pool, done


def _shape(answer: Any) -> Any:
    """Return an answer without what differs between two equal calls: ids and times."""
    if isinstance(answer, list):
        return [_shape(one) for one in answer]
    if isinstance(answer, Work):
        return (answer.fn_handle, answer.fn_name, answer.fn_args, answer.fn_type)
    kept = {
        field: getattr(answer, field)
        for field in getattr(answer, "__dataclass_fields__", ())
        if not field.endswith(("_at", "work_id"))
    }
    return kept or answer


def _traces(pool: Workpool) -> Any:
    """Return what calls leave behind: counts, and the row of the pool."""
    row = Pool.objects.using("default").filter(pk=pool.name)
    kept = row.values_list("overrides", "paused", "paused_reason").first()
    return (pool.debug_counts(), kept)


@pytest.mark.item("H14")
def test_every_blocking_method_has_a_twin_and_every_twin_a_method() -> None:
    assert sorted(TWINS.values()) == sorted(_public(asynchronous=True))


@pytest.mark.item("H14")
def test_every_blocking_method_has_a_scene() -> None:
    assert sorted(BLOCKING) == sorted(SCENES)


@EACH
@pytest.mark.item("H14")
def test_a_twin_takes_the_same_arguments(name: str) -> None:
    method, twin = BLOCKING[name], getattr(Workpool, TWINS[name])

    assert inspect.signature(method) == inspect.signature(twin)


@_on_database(SCENES)
@pytest.mark.item("H14")
def test_a_twin_gives_the_same_result_and_has_the_same_effect(name: str) -> None:
    scene, options = SCENES[name], dict(SCENES[name].options)
    (pool, work), (other, other_work) = _stage(), _stage()

    answer = getattr(pool, name)(*scene.good(work), **options)
    awaited = _await(other, name, *scene.good(other_work), **options)

    assert _shape(answer) == _shape(awaited)
    assert _traces(pool) == _traces(other)


@_on_database(name for name, scene in SCENES.items() if scene.error)
@pytest.mark.item("H14")
def test_a_twin_raises_the_same_error(name: str) -> None:
    scene, (pool, _) = SCENES[name], _stage()
    bad, options = scene.bad or (), dict(scene.bad_options)
    before = count("Work")

    with pytest.raises(scene.error or Exception) as raised:
        getattr(pool, name)(*bad, **options)
    awaited = _refused(pool, name, *bad, **options)

    assert (raised.type.__name__, str(raised.value)) == awaited
    assert before == count("Work")


@EACH
@pytest.mark.item("H14")
def test_a_twin_raises_the_errors_of_the_connection_too(name: str) -> None:
    pool = Workpool("nobody", using="nowhere")
    scene, options = SCENES[name], dict(SCENES[name].options)
    good = scene.good(Work(pk=UNKNOWN))

    with pytest.raises(ConnectionDoesNotExist) as raised:
        getattr(pool, name)(*good, **options)
    awaited = _refused(pool, name, *good, **options)

    assert (raised.type.__name__, str(raised.value)) == awaited


@COMMITTING
@pytest.mark.item("H14")
def test_the_twins_of_wait_and_result_refuse_a_work_that_has_not_ended() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)

    late, message = _refused(pool, "wait", work, timeout=0.02)
    early, _ = _refused(pool, "result", work)

    assert ("TimeoutError", "WorkNotFinishedError") == (late, early)
    assert str(work.pk) in message


@PLAIN
@pytest.mark.item("H14")
def test_the_twin_of_wait_is_refused_inside_a_transaction_too() -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)

    refused, message = _refused(pool, "wait", work)

    assert "UnsafeWaitError" == refused
    assert "transaction" in message


@_on_database(SCENES)
@pytest.mark.item("H14")
def test_a_twin_does_not_block_the_event_loop(name: str) -> None:
    scene, options = SCENES[name], dict(SCENES[name].options)
    pool, work = _stage()
    asked, goes_on = threading.Event(), threading.Event()

    def gate(execute: Callable[..., Any], *arguments: Any) -> Any:
        """Let no statement through before the event loop has made another turn."""
        asked.set()
        assert goes_on.wait(BLOCKED), "the event loop is blocked"
        return execute(*arguments)

    async def other() -> None:
        while not asked.is_set():  # noqa: ASYNC110 - the other side is a thread
            await asyncio.sleep(0.001)
        goes_on.set()

    async def both() -> None:
        twin = getattr(pool, TWINS[name])
        await asyncio.gather(other(), twin(*scene.good(work), **options))

    with connections["default"].execute_wrapper(gate):
        async_to_sync(both)()

    assert asked.is_set()
