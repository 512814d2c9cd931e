"""Rows that somebody edited: one spoiled row stops neither its pool nor another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_workpool.models import Pool, Worker
from django_workpool.testing import drain, run_pass
from tests.app import functions
from tests.conformance.pools import fresh
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@pytest.mark.parametrize(
    "text", ["garbage", "[1]", '{"max_parallelism":"x"}', '{"log_level":"LOUD"}']
)
def test_overrides_that_cannot_be_read_leave_what_is_declared(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    pool, other = fresh(max_parallelism=1), fresh("other")
    works = [*pool.enqueue_action_batch(functions.echo, [{}, {}])]
    Pool.objects.using("default").filter(pk=pool.name).update(overrides=text)

    run_pass(pool.name)
    running = pool.debug_counts()["inProgressWork"]
    healthy = other.enqueue_action(functions.echo)
    drain()

    assert 1 == running
    assert ["success"] * 2 == [pool.result(work).kind for work in works]
    assert "success" == other.result(healthy).kind
    assert 1 >= caplog.text.count("cannot be read")


@pytest.mark.parametrize(
    ("column", "state"), [("pools", "ready"), ("handles", "ready"), ("begun", "dead")]
)
def test_a_spoiled_worker_row_stops_nobody_else(column: str, state: str) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    drain(pool.name)
    spoiled = Worker.objects.using("default").get()
    spoiled.pk = "0" * 32
    spoiled.handles_digest = column
    spoiled.state = state
    setattr(spoiled, column, "garbage")
    spoiled.save(using="default", force_insert=True)

    after = pool.enqueue_action(functions.echo)
    drain(pool.name)

    assert "success" == pool.result(work).kind
    assert "success" == pool.result(after).kind


def test_a_worker_whose_row_was_deleted_registers_again(
    live: Callable[..., LiveRunner],
) -> None:
    """``manage.py flush`` beside a running runner."""
    pool = fresh()
    runner = live()
    Worker.objects.using("default").all().delete()

    until(lambda: Worker.objects.using("default").exists(), "the row")
    end = pool.wait(pool.enqueue_action(functions.echo), 30)

    assert "success" == end.completion_status
    assert "was deleted; it is made again" in runner.output
    assert 0 == runner.stop()
