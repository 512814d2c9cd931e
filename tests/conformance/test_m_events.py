"""M4, M9: the events, one line of JSON each, and only of what is committed."""

from __future__ import annotations

import contextlib
import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from django_workpool import signals
from django_workpool.testing import clock, drain, inline_executor, run_pass
from tests.app import functions
from tests.conformance import lines
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from django_workpool import Workpool
    from django_workpool.models import Work

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def _told(pool: Workpool, **options: Any) -> Work:
    work = pool.enqueue_action(functions.add, {"a": 1}, **options)
    drain(pool.name)
    return work


@pytest.mark.item("M4")
def test_an_event_is_one_line_of_json_at_info(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _told(fresh(log_level="INFO"), name="Zähler — 'quoted' \"twice\"")

    records = [record for record in caplog.records if record.name == lines.EVENTS]
    messages = [record.getMessage() for record in records]
    assert 3 == len(records)
    assert {logging.INFO} == {record.levelno for record in records}
    assert [1, 1, 1] == [len(message.splitlines()) for message in messages]
    assert {dict} == {type(json.loads(message)) for message in messages}


@pytest.mark.item("M4")
@pytest.mark.parametrize(
    ("event", "keys"),
    [
        ("enqueued", {"enqueuedAt"}),
        (
            "started",
            {"attempt", "enqueuedAt", "startedAt", "lagSinceEnqueued", "startLag"},
        ),
        (
            "completed",
            {"attempt", "status", "enqueuedAt", "completedAt", "lagSinceEnqueued"},
        ),
    ],
)
def test_an_event_has_the_keys_of_the_list(
    event: str, keys: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    _told(fresh(log_level="INFO"))

    (found,) = lines.events(caplog, event)
    assert {"event", "workId", "fnName", "pool", *keys} == set(found)


@pytest.mark.item("M4")
def test_the_values_of_the_events_are_those_of_the_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = fresh(log_level="INFO")
    executor = inline_executor()

    with clock() as now:
        begin = now.time
        work = pool.enqueue_action(functions.add, {"a": 1}, name="sums")
        now.move(2)
        run_pass(pool.name)
        (assignment,) = executor.fetch()
        now.move(3)
        ending = executor.execute(assignment)
        executor.finish(ending)

    def at(seconds: float) -> float:
        return round((begin + timedelta(seconds=seconds)).timestamp() * 1000, 3)

    common = {"workId": str(work.pk), "fnName": "sums", "pool": pool.name}
    assert [
        {"event": "enqueued", **common, "enqueuedAt": at(0)},
        {
            "event": "started",
            **common,
            "attempt": 1,
            "enqueuedAt": at(0),
            "startedAt": at(5),
            "lagSinceEnqueued": 5000.0,
            "startLag": 5000.0,
        },
        {
            "event": "completed",
            **common,
            "attempt": 1,
            "status": "success",
            "enqueuedAt": at(0),
            "completedAt": at(5),
            "lagSinceEnqueued": 5000.0,
        },
    ] == lines.events(caplog)


@pytest.mark.item("M4")
def test_the_completed_event_has_the_final_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = fresh(log_level="INFO")
    good = pool.enqueue_action(functions.async_echo)
    bad = pool.enqueue_action(functions.fail)
    written = pool.enqueue_mutation(functions.effect)
    rolled_back = pool.enqueue_mutation(functions.effect, {"fails": True})
    canceled = pool.enqueue_action(functions.add, {"a": 1})
    pool.cancel(canceled)

    drain(pool.name)

    found = {e["workId"]: e["status"] for e in lines.events(caplog, "completed")}
    assert {
        str(good.pk): "success",
        str(bad.pk): "error",
        str(written.pk): "success",
        str(rolled_back.pk): "error",
        str(canceled.pk): "canceled",
    } == found


class _RolledBackError(Exception):
    """Ends a transaction of a test."""


@contextlib.contextmanager
def _rolled_back() -> Any:
    with contextlib.suppress(_RolledBackError), transaction.atomic(using="default"):
        yield
        raise _RolledBackError


@pytest.fixture
def enqueued() -> Any:
    """Collect the ids that ``work_enqueued`` tells."""
    told: list[str] = []

    def receiver(*, work_id: object, **_fields: object) -> None:
        told.append(str(work_id))

    signals.work_enqueued.connect(receiver)
    yield told
    signals.work_enqueued.disconnect(receiver)


@pytest.mark.item("M9")
def test_an_enqueue_that_is_rolled_back_is_told_by_nobody(
    enqueued: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(log_level="INFO")

    with _rolled_back():
        pool.enqueue_action(functions.add, {"a": 1})
        pool.enqueue_mutation_batch(functions.effect, [{}, {}])
    drain(pool.name)

    assert [] == enqueued
    assert [] == lines.events(caplog)


@pytest.mark.item("M9")
def test_of_a_rolled_back_savepoint_only_the_others_are_told(
    enqueued: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(log_level="INFO")

    with transaction.atomic(using="default"):
        before = pool.enqueue_action(functions.add, {"a": 1})
        with _rolled_back():
            pool.enqueue_action(functions.add, {"a": 2})
        after = pool.enqueue_action(functions.add, {"a": 3})

    expected = [str(before.pk), str(after.pk)]
    assert expected == enqueued
    assert expected == [e["workId"] for e in lines.events(caplog, "enqueued")]


@pytest.mark.item("M9")
def test_an_enqueue_is_told_after_its_commit_and_not_before(
    enqueued: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(log_level="INFO")

    with transaction.atomic(using="default"):
        work = pool.enqueue_action(functions.add, {"a": 1})
        inside = [*enqueued, *lines.events(caplog)]

    assert [] == inside
    assert [str(work.pk)] == enqueued
    assert ["enqueued"] == lines.names(caplog)
