"""Group B: options of a pool, what is allowed, stored and overridden."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from django_workpool import Workpool, options
from django_workpool.exceptions import InvalidOptionError
from django_workpool.models import Pool
from django_workpool.testing import run_pass
from tests.app import functions
from tests.children import child_environment, manage
from tests.conformance.pools import fresh
from tests.conformance.tables import in_force, nothing_written

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

IN_A_TRANSACTION = pytest.mark.django_db(databases=["default", "other"])
SECOND_HANDLE = """
from django_workpool import Workpool
from tests.app.functions import add
pool = Workpool({name!r})
print(pool.enqueue_action(add, {{"a": 1}}).pk)
pool.enqueue_action(add, {{"a": 2}})
"""


@pytest.mark.item("B1")
def test_a_pool_without_options_has_the_documented_ones() -> None:
    pool = fresh()
    assert not Pool.objects.using("default").exists()

    pool.enqueue_action(functions.add, {"a": 1})

    assert {
        "name": pool.name,
        "max_parallelism": 10,
        "status_ttl": timedelta(days=1),
        "log_level": "WARNING",
        "executor": "local",
        "overrides": "{}",
        "paused": False,
        "paused_reason": "",
        "paused_at": None,
        "paused_until": None,
    } == in_force(pool)


@pytest.mark.item("B1")
@IN_A_TRANSACTION
def test_without_options_ten_works_run_at_once() -> None:
    pool = fresh()
    pool.enqueue_action_batch(functions.add, [{"a": n} for n in range(12)])

    passed = run_pass(pool.name)

    assert passed is not None
    assert 10 == len(passed.plan.starts)
    assert 2 == pool.queue_length()


def declare(**given: Any) -> Workpool:
    """Declare an option in code."""
    return fresh(**given)


def override(**given: Any) -> Workpool:
    """Override it."""
    pool = fresh()
    pool.update(**given)
    return pool


@pytest.mark.item("B2")
@IN_A_TRANSACTION
@pytest.mark.parametrize("limit", [0, 10_000])
@pytest.mark.parametrize("say", [declare, override])
def test_the_smallest_and_the_largest_limit_are_accepted(
    say: Callable[..., Workpool], limit: int
) -> None:
    pool = say(max_parallelism=limit)

    pool.enqueue_action(functions.add, {"a": 1})
    run_pass(pool.name)

    assert limit == pool.diagnostics().max_parallelism
    assert min(limit, 1) == pool.debug_counts()["inProgressWork"]


@pytest.mark.item("B2")
@IN_A_TRANSACTION
@pytest.mark.parametrize(
    "limit",
    [-1, 10_001, 2**31, 1.5, 5.0, float("nan"), True, False, "5", None, [5]],
    ids=repr,
)
@pytest.mark.parametrize("say", [declare, override])
def test_another_limit_is_refused_naming_0_and_10000(
    say: Callable[..., Workpool], limit: Any
) -> None:
    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        say(max_parallelism=limit)

    assert ("max_parallelism", repr(limit)) == (
        caught.value.option,
        repr(caught.value.value),
    )
    message = str(caught.value)
    assert f"max_parallelism={limit!r} is not possible" in message
    assert "from 0 (starts nothing) to 10000" in message


@pytest.mark.item("B2")
@IN_A_TRANSACTION
def test_a_refused_declaration_leaves_the_former_one() -> None:
    pool = fresh(max_parallelism=3)

    with pytest.raises(InvalidOptionError):
        Workpool(pool.name, max_parallelism=-1, log_level="INFO")
    run_pass(pool.name)

    assert {"max_parallelism": 3} == options.declared_options(pool.name)
    assert 3 == in_force(pool)["max_parallelism"]


@pytest.mark.item("B6")
@IN_A_TRANSACTION
def test_two_handles_of_one_name_share_queue_limit_and_state() -> None:
    first = fresh(max_parallelism=3, log_level="INFO", status_ttl=60)
    second = Workpool(first.name)

    works = [
        pool.enqueue_action(functions.add, {"a": 1})
        for pool in (first, second, first, second)
    ]
    passed = run_pass(first.name)
    second.pause("by the second")

    assert passed is not None
    assert 3 == len(passed.plan.starts)
    assert first.status_batch(works) == second.status_batch(works)
    assert first.debug_counts() == second.debug_counts()
    assert first.diagnostics() == second.diagnostics()
    assert "by the second" == first.diagnostics().paused_reason
    row = in_force(first)
    assert (3, "INFO", timedelta(seconds=60)) == (
        row["max_parallelism"],
        row["log_level"],
        row["status_ttl"],
    )


@pytest.mark.item("B6")
def test_a_second_handle_in_another_process_resets_no_stored_option() -> None:
    pool = fresh(max_parallelism=3, log_level="INFO", status_ttl=None)
    pool.enqueue_action(functions.add, {"a": 0})
    pool.update(max_parallelism=4)
    pool.pause("for now")
    before = in_force(pool)

    child = subprocess.run(
        manage("shell", "--no-imports", "-c", SECOND_HANDLE.format(name=pool.name)),
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert before == in_force(pool)
    assert "pending" == pool.status(child.stdout.strip()).kind
    assert 3 == pool.queue_length()


OTHERS = {
    "max_parallelism": (7, 7),
    "status_ttl": (30, timedelta(seconds=30)),
    "log_level": ("WARN", "WARNING"),
    "executor": ("local", "local"),
}


def overrides(pool: Workpool) -> dict[str, Any]:
    """Return what the row of a pool overrides."""
    return options.overrides_of(in_force(pool)["overrides"])


@pytest.mark.item("B9")
@IN_A_TRANSACTION
@pytest.mark.parametrize("option", OTHERS)
def test_an_update_of_one_option_leaves_all_others(option: str) -> None:
    pool = fresh(max_parallelism=3, log_level="INFO", status_ttl=60)
    pool.update(max_parallelism=4, log_level="ERROR", status_ttl=90, executor="local")
    pool.pause("kept")
    row, before = in_force(pool), overrides(pool)
    value, stored = OTHERS[option]

    pool.update(**{option: value})

    assert {**before, option: stored} == overrides(pool)
    assert {**row, "overrides": in_force(pool)["overrides"]} == in_force(pool)


@pytest.mark.item("B9")
@IN_A_TRANSACTION
def test_an_update_of_nothing_changes_nothing() -> None:
    pool = fresh(max_parallelism=3)
    pool.update(max_parallelism=4)

    with nothing_written():
        pool.update()


@pytest.mark.item("B9")
@IN_A_TRANSACTION
@pytest.mark.parametrize(
    ("changes", "option", "words"),
    [
        ({"parallelism": 5}, "option", ["'parallelism'", "max_parallelism, "]),
        ({"name": "x"}, "option", ["'name'", "max_parallelism, "]),
        ({"using": "other"}, "option", ["'using'", "max_parallelism, "]),
        ({"paused": True}, "option", ["'paused'", "max_parallelism, "]),
        ({"max_parallelism": -1}, "max_parallelism", ["-1", "from 0"]),
        ({"status_ttl": -1}, "status_ttl", ["-1", "timedelta or seconds"]),
        ({"status_ttl": "1 day"}, "status_ttl", ["'1 day'", "timedelta or seconds"]),
        ({"status_ttl": float("nan")}, "status_ttl", ["nan", "timedelta or seconds"]),
        ({"status_ttl": 1e300}, "status_ttl", ["1e+300", "100 years"]),
        ({"status_ttl": True}, "status_ttl", ["True", "timedelta or seconds"]),
        ({"status_ttl": timedelta.max}, "status_ttl", ["timedelta(", "100 years"]),
        ({"log_level": "LOUD"}, "log_level", ["'LOUD'", "DEBUG, INFO, REPORT"]),
        ({"log_level": 30}, "log_level", ["30", "DEBUG, INFO, REPORT"]),
        ({"log_level": "info"}, "log_level", ["'info'", "DEBUG, INFO, REPORT"]),
        ({"executor": "celery"}, "executor", ["'celery'", "local"]),
        ({"executor": ["local"]}, "executor", ["['local']", "local"]),
        ({"max_parallelism": 5, "log_level": "LOUD"}, "log_level", ["'LOUD'", "WARN"]),
        ({"log_level": "INFO", "nonsense": 1}, "option", ["'nonsense'", "executor"]),
    ],
    ids=lambda value: ",".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_an_unknown_option_or_a_bad_value_is_refused_and_changes_nothing(
    changes: dict[str, Any], option: str, words: list[str]
) -> None:
    pool = fresh(max_parallelism=3)
    pool.update(max_parallelism=4)

    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        pool.update(**changes)

    assert option == caught.value.option
    assert [word for word in words if word not in str(caught.value)] == []
