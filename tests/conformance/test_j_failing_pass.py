"""Conformance J5: a pass that fails leaves nothing, the next one does everything."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError
from django.db.models import F

from django_workpool import testing
from django_workpool.engine import workers
from django_workpool.executors.inline import InlineExecutor
from django_workpool.models import CompletedWork, MainLoop, Work
from tests.app import functions
from tests.conformance.begun import end
from tests.conformance.pools import fresh
from tests.conformance.stumbling import armed
from tests.conformance.tables import nothing_written
from tests.journal import ids

if TYPE_CHECKING:
    from django_workpool import Workpool
    from django_workpool.engine.complete import Assignment
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

PHASES = (
    "pass.locked",
    "recovery.after_read",
    "completions.after_read",
    "completions.mid",
    "completions.end",
    "cancelations.mid",
    "recovery.mid",
    "recovery.end",
    "starts.after_plan",
    "starts.mid",
    "next.before_write",
    "pass.before_commit",
)


def _mixed() -> tuple[Workpool, list[Work], list[Assignment]]:
    """Return a pool of which every phase of the next pass has something to do.

    Its works: lost, not begun by the dead, ended, flagged, held, canceled, due; and
    what the living worker has begun of them and not ended.
    """
    pool = fresh("mixed", max_parallelism=6)
    dying = InlineExecutor("default", threads=2)
    works = pool.enqueue_action_batch(functions.add, [{"a": 1}] * 2)
    testing.run_pass(pool.name, with_worker=False)
    lost, _ = dying.fetch()
    works += pool.enqueue_action_batch(functions.add, [{"a": 2}] * 3)
    testing.run_pass(pool.name)
    ended, *begun = testing.inline_executor().fetch()
    end(ended)
    workers.ended(
        "default", dying.worker.pk, is_dead=True, last_exit="killed", begun=[lost.key]
    )
    works += pool.enqueue_action_batch(functions.add, [{"a": 3}] * 2)
    pool.cancel(works[3])
    pool.cancel(works[5])
    return pool, works, begun


def _fail_a_pass(
    pool: Workpool, point: str, error: type[Exception], journal: Journal
) -> None:
    name = f"{error.__module__}.{error.__qualname__}"
    with (
        armed(f"{point}=raise:{name}", journal),
        pytest.raises(error, match="failpoint"),
    ):
        testing.run_pass(pool.name)


def _generation(pool: Workpool) -> int:
    return MainLoop.objects.using("default").get(pk=pool.name).generation


def _assert_each_ended_once(
    pool: Workpool, works: list[Work], begun: list[Assignment], journal: Journal
) -> None:
    for assignment in begun:
        end(assignment)
    testing.drain(pool.name)

    kinds = [pool.result(work).kind for work in works]
    assert [
        *("error", "success", "success", "success", "success"),
        *("canceled", "success"),
    ] == kinds
    assert "WorkerLostError" == pool.result(works[0]).error_type
    ran = [*works[1:5], works[6]]
    assert sorted(ids(ran)) == sorted(journal.begins())
    assert {0} == set(pool.debug_counts().values())


@pytest.mark.item("J5")
@pytest.mark.parametrize("point", PHASES)
def test_nothing_of_a_pass_that_failed_is_visible_and_the_next_does_it_all(
    point: str, journal: Journal
) -> None:
    pool, works, begun = _mixed()

    with nothing_written():
        _fail_a_pass(pool, point, OperationalError, journal)
        _fail_a_pass(pool, point, RuntimeError, journal)
    before = _generation(pool)
    passed = testing.run_pass(pool.name)

    assert passed is not None
    assert before + 1 == passed.generation
    assert (1, 1, 1, 1, 1, 1) == (
        len(passed.plan.completions),
        len(passed.plan.canceled),
        len(passed.plan.flagged),
        len(passed.plan.lost),
        len(passed.plan.given_back),
        len(passed.plan.starts),
    )
    _assert_each_ended_once(pool, works, begun, journal)


@pytest.mark.item("J5")
def test_a_pass_that_fails_after_its_commit_is_not_done_again(
    journal: Journal,
) -> None:
    pool, works, begun = _mixed()
    before = _generation(pool)

    _fail_a_pass(pool, "pass.after_commit", RuntimeError, journal)

    assert before + 1 == _generation(pool)
    assert pool.status(works[3]).cancel_requested is True
    _assert_each_ended_once(pool, works, begun, journal)


@pytest.mark.item("J5")
def test_a_pass_that_fails_while_it_cleans_deletes_nothing(journal: Journal) -> None:
    pool = fresh(status_ttl=timedelta(hours=1))
    old, young = pool.enqueue_action_batch(functions.add, [{"a": 1}] * 2)
    testing.drain(pool.name)
    CompletedWork.objects.using("default").filter(pk=old.pk).update(
        completed_at=F("completed_at") - timedelta(hours=2)
    )
    due = pool.enqueue_action(functions.add, {"a": 1})

    with nothing_written():
        _fail_a_pass(pool, "cleanup.mid", OperationalError, journal)
    testing.drain(pool.name)

    assert [None] == pool.status_batch([old])
    assert ["success"] * 2 == [pool.result(work).kind for work in (young, due)]
    assert not Work.objects.using("default").filter(pk=old.pk).exists()
    assert ids([old, young, due]) == journal.begins()
