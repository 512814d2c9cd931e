"""Must hold: a wait that could never end, or that makes no sense, is refused."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_workpool.exceptions import InvalidOptionError, UnsafeWaitError
from django_workpool.testing import drain
from tests.app import functions
from tests.app.enqueue_functions import wait_for_itself
from tests.conformance.pools import fresh
from tests.conformance.tables import nothing_written

if TYPE_CHECKING:
    from django_workpool import Workpool
    from django_workpool.models import Work

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def ended(pool: Workpool) -> Work:
    """Return a work that has ended."""
    work = pool.enqueue_action(functions.add, {"a": 1})
    drain(pool.name)
    return work


def test_a_wait_inside_a_transaction_is_refused() -> None:
    pool = fresh()
    work = ended(pool)

    with transaction.atomic(), pytest.raises(UnsafeWaitError) as caught:
        pool.wait(work, timeout=30)

    assert pool.name == caught.value.pool
    assert repr(pool.name) in str(caught.value)
    assert "inside a transaction" in str(caught.value)
    assert "Wait after the transaction" in str(caught.value)


def test_a_wait_inside_a_work_of_the_same_pool_is_refused() -> None:
    pool = fresh()
    work = pool.enqueue_action(wait_for_itself, {"pool": pool.name})

    drain(pool.name)

    result = pool.result(work)
    assert ("error", "UnsafeWaitError") == (result.kind, result.error_type)
    assert repr(pool.name) in result.error
    assert "outside the works of that pool" in result.error


@pytest.mark.parametrize("timeout", [0, 0.0, -1, timedelta(0)], ids=repr)
def test_a_wait_of_no_time_looks_once(timeout: Any) -> None:
    pool = fresh()
    work = ended(pool)
    waiting = pool.enqueue_action(functions.add, {"a": 1})

    status = pool.wait(work, timeout=timeout)
    with pytest.raises(TimeoutError) as caught:
        pool.wait(waiting, timeout=timeout)

    assert "completed" == status.kind
    assert str(waiting.pk) in str(caught.value)
    assert repr(pool.name) in str(caught.value)


@pytest.mark.parametrize("timeout", ["5", math.nan, True, [5]], ids=repr)
def test_a_timeout_that_is_no_time_is_refused(timeout: Any) -> None:
    pool = fresh()
    work = ended(pool)

    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        pool.wait(work, timeout=timeout)

    assert "timeout" == caught.value.option
    assert repr(timeout) in str(caught.value)
    assert "timedelta or seconds" in str(caught.value)
