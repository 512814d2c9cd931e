"""D. Functions in real workers: what they share, and what they must not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from django_workpool import current_work
from django_workpool.choices import WorkKind
from django_workpool.exceptions import NotInWorkError
from tests.app import engine_functions, functions
from tests.app.models import Effect
from tests.conformance.pools import fresh
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

# One thread: the next work runs where the last one ran.
ONE_THREAD = ("--processes", "1", "--threads", "1")


@pytest.mark.item("D14")
def test_ten_coroutines_overlap_on_a_worker_with_one_thread(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=10)
    live(*ONE_THREAD)

    works = pool.enqueue_action_batch(functions.async_sleep, [{"seconds": 1}] * 10)
    ends = [pool.wait(work, timeout=60) for work in works]

    intervals = journal.intervals(pool.name)
    assert ["success"] * 10 == [end.completion_status for end in ends]
    # All of them at one instant: so they ended one second after that one began.
    assert 10 == journal.peak(pool.name)
    assert 1 == len({interval.pid for interval in intervals})
    assert 1 == len({line["thread"] for line in journal.lines("begin")})


@pytest.mark.item("D14")
def test_a_sync_function_does_not_hold_up_coroutines(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=2)
    live(*ONE_THREAD)
    held = pool.enqueue_action(functions.hold)
    journal.wait_begun("held")

    works = pool.enqueue_action_batch(functions.async_echo, [{}] * 5)
    ends = [pool.wait(work, timeout=60) for work in works]
    between = pool.status(held).kind
    journal.release("held")
    pool.wait(held, timeout=60)

    assert ["success"] * 5 == [end.completion_status for end in ends]
    assert WorkKind.IN_PROGRESS == between


LEFT = ["atomic", "autocommit", "setting", "language", "zone"]


@pytest.mark.item("D15")
def test_the_next_work_finds_nothing_of_what_the_last_one_left(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)
    live(*ONE_THREAD)
    pure = pool.enqueue_action(engine_functions.look_around)

    looks = [
        (
            pool.enqueue_action(engine_functions.leave, {"what": what}),
            pool.enqueue_action(engine_functions.look_around),
        )
        for what in LEFT
    ]
    ends = [pool.wait(work, timeout=60) for pair in looks for work in pair]

    expected = pool.result(pure).return_value
    assert ["success"] * (2 * len(LEFT)) == [end.completion_status for end in ends]
    assert dict.fromkeys(LEFT, expected) == {
        what: pool.result(look).return_value
        for what, (_, look) in zip(LEFT, looks, strict=True)
    }
    assert (False, True, "en-us", "UTC", []) == (
        expected["in_atomic"],
        expected["autocommit"],
        expected["language"],
        expected["zone"],
        expected["names"],
    )
    assert "777" not in expected["setting"]
    assert 1 == len({line["thread"] for line in journal.lines("begin")})


@pytest.mark.item("D15")
@pytest.mark.parametrize("next_kind", ["coroutine", "thread"])
def test_the_next_work_finds_nothing_of_what_a_coroutine_left(
    live: Callable[..., LiveRunner], next_kind: str
) -> None:
    pool = fresh(max_parallelism=1)
    live(*ONE_THREAD)
    look = {
        "coroutine": engine_functions.async_look_around,
        "thread": engine_functions.look_around,
    }[next_kind]
    pure = pool.enqueue_action(look)

    looks = [
        (
            pool.enqueue_action(engine_functions.async_leave, {"what": what}),
            pool.enqueue_action(look),
        )
        for what in LEFT
    ]
    ends = [pool.wait(work, timeout=60) for pair in looks for work in pair]

    expected = pool.result(pure).return_value
    assert ["success"] * (2 * len(LEFT)) == [end.completion_status for end in ends]
    assert dict.fromkeys(LEFT, expected) == {
        what: pool.result(look).return_value
        for what, (_, look) in zip(LEFT, looks, strict=True)
    }


@pytest.mark.item("D16")
@pytest.mark.parametrize("how", ["closed", "dropped"])
@pytest.mark.parametrize(
    "lose",
    [engine_functions.lose_connection, engine_functions.async_lose_connection],
    ids=["thread", "coroutine"],
)
def test_a_work_that_lost_its_connection_completes_and_the_next_one_has_another(
    live: Callable[..., LiveRunner],
    journal: Journal,
    lose: Callable[..., Any],
    how: str,
) -> None:
    pool = fresh(max_parallelism=1)
    live(*ONE_THREAD)

    works = [
        pool.enqueue_action(lose, {"how": how}),
        pool.enqueue_action(engine_functions.look_around),
        pool.enqueue_mutation(functions.effect),
        pool.enqueue_action(engine_functions.async_look_around),
    ]
    ends = [pool.wait(work, timeout=60) for work in works]

    assert ["success"] * 4 == [end.completion_status for end in ends]
    assert how == pool.result(works[0]).return_value
    assert ids(works) == journal.begins(pool.name)


@pytest.mark.item("D16")
@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_mutation_that_lost_its_connection_ends_and_its_effect_tells_how(
    live: Callable[..., LiveRunner], journal: Journal, how: str
) -> None:
    pool = fresh(max_parallelism=1)
    live(*ONE_THREAD)

    work = pool.enqueue_mutation(engine_functions.effect_and_loss, {"how": how})
    after = pool.enqueue_mutation(functions.effect)
    ends = [pool.wait(each, timeout=60) for each in (work, after)]

    # Whether it could run again differs; outcome and effect never do.
    effects = Effect.objects.using("default")
    succeeded = [end.completion_status == "success" for end in ends]
    assert succeeded == [
        effects.filter(work_id=each.pk).count() == 1 for each in (work, after)
    ]
    assert succeeded[1]
    assert str(work.pk) in journal.begins(pool.name)


@pytest.mark.item("D16")
@pytest.mark.vendor("postgresql")
def test_a_connection_dropped_between_two_works_is_replaced_before_the_second(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh(max_parallelism=1)
    live(*ONE_THREAD)
    first = pool.enqueue_action(engine_functions.name_session)
    pool.wait(first, timeout=60)

    session = pool.result(first).return_value
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [session])
    second = pool.enqueue_action(engine_functions.name_session)
    end = pool.wait(second, timeout=60)

    assert "success" == end.completion_status, pool.result(second).error
    assert session != pool.result(second).return_value


@pytest.mark.item("D18")
def test_works_at_the_same_time_each_see_their_own_current_work(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, other = fresh(), fresh("other")
    live("--processes", "1")

    kinds = [
        engine_functions.hold_and_tell,
        engine_functions.async_hold_and_tell,
    ]
    works = [
        (where, where.enqueue_action(fn, {"name": "all"}))
        for where in (pool, other)
        for fn in kinds
        for _ in range(3)
    ]
    journal.wait_for("begin", len(works))
    journal.release("all")
    ends = [where.wait(work, timeout=60) for where, work in works]

    assert ["success"] * len(works) == [end.completion_status for end in ends]
    answers = [where.result(work).return_value for where, work in works]
    expected = [
        {"work_id": str(work.pk), "attempt": 1, "pool": where.name}
        for where, work in works
    ]
    assert expected == [answer["body"] for answer in answers]
    assert expected == [answer["awaited"] for answer in answers]
    assert 1 == len({line["pid"] for line in journal.lines("begin")})


@pytest.mark.item("D18")
def test_outside_a_work_there_is_no_current_work() -> None:
    with pytest.raises(NotInWorkError):
        current_work()


@pytest.mark.item("D19")
@pytest.mark.parametrize(
    "fn",
    [
        functions.hold_until_canceled,
        engine_functions.async_hold_until_canceled,
    ],
    ids=["thread", "coroutine"],
)
def test_a_held_action_sees_that_it_was_canceled_while_it_runs(
    live: Callable[..., LiveRunner], journal: Journal, fn: Callable[[], Any]
) -> None:
    pool = fresh()
    live()
    work = pool.enqueue_action(fn)
    until(lambda: journal.lines("begin"), "its begin")
    before = pool.status(work)

    answer = pool.cancel(work)
    end = pool.wait(work, timeout=30)

    assert (WorkKind.IN_PROGRESS, False) == (before.kind, before.cancel_requested)
    assert answer
    # It saw it and returned: success stays success.
    assert "success" == end.completion_status
    assert pool.result(work).return_value is True


@pytest.mark.item("D19")
def test_a_cancelation_of_one_work_is_not_seen_by_another(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    live("--processes", "1")
    work = pool.enqueue_action(functions.hold_until_canceled)
    beside = pool.enqueue_action(functions.hold_until_canceled)
    journal.wait_for("begin", 2)

    pool.cancel(work)
    pool.wait(work, timeout=30)
    between = pool.status(beside)
    pool.cancel(beside)
    pool.wait(beside, timeout=30)

    assert (WorkKind.IN_PROGRESS, False) == (between.kind, between.cancel_requested)
