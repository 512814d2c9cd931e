"""Several kicks of one transaction: one wake-up, and none swallowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from django_workpool.testing import run_pass
from tests.app import functions
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "other"]),
    pytest.mark.vendor("postgresql"),
]


def _notifications(statements: list[str]) -> int:
    return sum("pg_notify" in sql for sql in statements)


@pytest.fixture
def queries() -> Iterator[list[str]]:
    """Collect the statements of this connection."""
    found: list[str] = []

    def collect(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        found.append(sql)
        return execute(sql, *rest)

    with connections["default"].execute_wrapper(collect):
        yield found


def test_r33_many_enqueues_of_one_transaction_send_one_notification(
    queries: list[str],
) -> None:
    pool = fresh()

    with transaction.atomic():
        pool.enqueue_action(functions.echo)
        pool.enqueue_action(functions.echo)
        pool.enqueue_action_batch(functions.echo, [{}] * 3)

    assert 1 == _notifications(queries)


def test_r33_an_enqueue_into_a_full_pool_wakes_nobody_but_a_raised_limit_behind_it_does(
    queries: list[str],
) -> None:
    pool = fresh(max_parallelism=1)
    pool.enqueue_action_batch(functions.echo, [{}] * 2)
    run_pass(pool.name)
    run_pass(pool.name)
    queries.clear()

    pool.enqueue_action(functions.echo)
    into_full = _notifications(queries)
    with transaction.atomic():
        pool.enqueue_action(functions.echo)
        pool.update(max_parallelism=2)

    assert 0 == into_full
    assert 1 == _notifications(queries)
