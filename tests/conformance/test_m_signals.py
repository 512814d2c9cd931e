"""M8: three signals, each once for each event, and receivers that break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_workpool import signals
from django_workpool.models import Work
from django_workpool.testing import drain
from tests.app import functions, report_functions
from tests.conformance.pools import fresh
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


class _Receivers:
    """One receiver for each signal; all of them note and, if told so, raise."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.breaks = False
        self._connected = [self._connect(name) for name in signals.__all__]

    def _connect(self, name: str) -> tuple[str, Callable[..., None]]:
        def receiver(*, sender: Any, signal: Any, **fields: Any) -> None:
            self.told.append({"signal": name, "sender": sender, **fields})
            if self.breaks:
                raise ZeroDivisionError(name)

        getattr(signals, name).connect(receiver)
        return name, receiver

    def disconnect(self) -> None:
        for name, receiver in self._connected:
            getattr(signals, name).disconnect(receiver)


@pytest.fixture
def receivers() -> Iterator[_Receivers]:
    """Listen to all signals in this process."""
    made = _Receivers()
    yield made
    made.disconnect()


def _enqueue(kind: str) -> tuple[Work, str]:
    pool = fresh()
    if kind == "mutation":
        return pool.enqueue_mutation(functions.effect, name="told"), pool.name
    fn = {"action": functions.echo, "async action": functions.async_echo}[kind]
    return pool.enqueue_action(fn, name="told"), pool.name


@pytest.mark.item("M8")
@pytest.mark.parametrize("kind", ["action", "async action", "mutation"])
def test_each_signal_is_sent_once_with_its_fields(
    kind: str, receivers: _Receivers
) -> None:
    work, pool = _enqueue(kind)
    drain(pool)

    common = {"sender": Work, "work_id": work.pk, "pool": pool, "fn_name": "told"}
    assert [
        {"signal": "work_enqueued", **common},
        {"signal": "work_started", **common, "attempt": 1},
        {"signal": "work_completed", **common, "attempt": 1, "status": "success"},
    ] == receivers.told


@pytest.mark.item("M8")
@pytest.mark.parametrize("kind", ["action", "async action", "mutation"])
def test_receivers_that_raise_change_no_outcome_and_are_logged(
    kind: str, receivers: _Receivers, caplog: pytest.LogCaptureFixture
) -> None:
    receivers.breaks = True

    work, pool = _enqueue(kind)
    drain(pool)

    assert "success" == fresh_status(pool, work)
    logged = [r for r in caplog.records if r.exc_info and r.name == "django.dispatch"]
    assert 3 == len(receivers.told) == len(logged)


def fresh_status(pool: str, work: Work) -> str | None:
    """Return the completion status of a work of the pool called *pool*."""
    rows = Work.objects.using("default").for_pool(pool).with_status()
    return rows.get(pk=work.pk).completion_status  # type: ignore[attr-defined,no-any-return]


@pytest.mark.item("M8")
def test_a_work_that_ends_without_a_worker_is_completed_once(
    receivers: _Receivers,
) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.add, {"a": 1})
    pool.cancel(work)

    drain(pool.name)

    told = [(one["signal"], one.get("status")) for one in receivers.told]
    assert [("work_enqueued", None), ("work_completed", "canceled")] == told


@pytest.mark.item("M8")
def test_workers_send_each_signal_once_though_every_receiver_raises(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool, paused = fresh(), fresh()
    runner = live("--processes", "2", **{report_functions.VARIABLE: "1"})
    paused.pause("so that it waits")
    waiting = paused.enqueue_action(functions.add, {"a": 1})
    paused.cancel(waiting)
    works = {
        "success": pool.enqueue_action(functions.echo),
        "async": pool.enqueue_action(functions.async_echo),
        "error": pool.enqueue_action(functions.fail),
        "mutation": pool.enqueue_mutation(functions.effect),
    }
    ends = {name: pool.wait(work, timeout=30) for name, work in works.items()}
    lost = pool.enqueue_action(functions.die)
    pool.wait(lost, timeout=30)
    until(lambda: len(journal.lines("signal")) >= 11, "all signals")

    told = [
        (line["name"], line["work_id"], line.get("status"))
        for line in journal.lines("signal")
    ]
    statuses = {
        str(work.pk): ends[name].completion_status for name, work in works.items()
    }
    started = [("work_started", work_id, None) for work_id in statuses]
    started.append(("work_started", str(lost.pk), None))
    completed = [("work_completed", *item) for item in statuses.items()]
    completed.append(("work_completed", str(lost.pk), "error"))
    completed.append(("work_completed", str(waiting.pk), "canceled"))
    assert sorted([*started, *completed], key=str) == sorted(told, key=str)
    assert ["success", "success", "error", "success"] == list(statuses.values())
    assert 0 == runner.stop()
