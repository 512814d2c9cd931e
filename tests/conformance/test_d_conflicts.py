"""D10, D11. Mutations that meet a conflict, and hooks of their commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_workpool.db import retry
from django_workpool.models import CompletedWork
from django_workpool.runner.invoke import MAX_CONFLICTS
from django_workpool.testing import drain
from tests.app import engine_functions, functions
from tests.app.models import Counter, Effect
from tests.conformance.pools import fresh
from tests.journal import ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def effects(work: Work) -> int:
    """Return how many effects of a work there are."""
    return Effect.objects.using("default").filter(work_id=work.pk).count()


def conflicting(pool: Workpool, *, always: bool = False) -> Work:
    """Enqueue a mutation that meets a conflict."""
    Counter.objects.using("default").create(name="fought-over")
    args = {"name": "fought-over", "always": always}
    return pool.enqueue_mutation(engine_functions.meet_conflict, args)


@pytest.mark.item("D10")
def test_a_mutation_that_meets_a_conflict_runs_again_within_its_attempt(
    journal: Journal,
) -> None:
    pool = fresh()
    work = conflicting(pool)

    drain(pool.name)

    end = pool.status(work)
    assert ("success", 0) == (end.completion_status, end.previous_attempts)
    assert 1 == CompletedWork.objects.using("default").get().attempts
    assert 2 == pool.result(work).return_value
    assert 1 == effects(work)
    assert ["raise", "ok"] == [line["how"] for line in journal.lines("end")]
    assert {1} == {line["attempt"] for line in journal.lines("begin")}


@pytest.mark.item("D10")
def test_a_mutation_that_always_meets_a_conflict_ends_as_error(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The waits between the runs are not what this test is about.
    monkeypatch.setattr(retry, "LONGEST_WAIT", retry.FIRST_WAIT)
    pool = fresh()
    work = conflicting(pool, always=True)

    drain(pool.name)

    result = pool.result(work)
    assert ("error", "django.db.utils.OperationalError") == (
        result.kind,
        result.error_type,
    )
    assert 1 + MAX_CONFLICTS == len(journal.lines("begin"))
    assert 0 == effects(work)


@pytest.mark.item("D10")
@pytest.mark.vendor("postgresql")
def test_mutations_that_lock_each_other_out_both_take_effect_once(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh(max_parallelism=2)
    Counter.objects.using("default").bulk_create([Counter(name="a"), Counter(name="b")])
    live()

    works = [
        pool.enqueue_mutation(
            engine_functions.lock_both, {"first": first, "second": second}
        )
        for first, second in [("a", "b"), ("b", "a")]
    ]
    ends = [pool.wait(work, timeout=60) for work in works]

    assert [("success", 0)] * 2 == [
        (end.completion_status, end.previous_attempts) for end in ends
    ]
    values = Counter.objects.using("default").values_list("value", flat=True)
    assert [2, 2] == list(values)
    assert 3 == len(journal.lines("begin"))


@pytest.mark.item("D11")
def test_a_hook_of_a_mutation_runs_once_after_its_commit(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_mutation(functions.hooked)

    drain(pool.name)

    assert [str(work.pk)] == [line["work_id"] for line in journal.lines("hook")]
    kinds = [line["line"] for line in journal.lines("end", "hook")]
    assert ["end", "hook"] == kinds


@pytest.mark.item("D11")
def test_a_hook_of_a_mutation_that_fails_never_runs(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_mutation(functions.hooked, {"fails": True})

    drain(pool.name)

    assert "error" == pool.status(work).completion_status
    assert ids([work]) == journal.begins(pool.name)
    assert [] == journal.lines("hook")


@pytest.mark.item("D11")
def test_a_hook_of_a_mutation_that_ran_twice_runs_once(journal: Journal) -> None:
    pool = fresh()
    conflicting(pool)

    drain(pool.name)

    assert 2 == len(journal.lines("begin"))
    assert 1 == len(journal.lines("hook"))


@pytest.mark.item("D11")
def test_a_hook_that_raises_does_not_change_the_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = fresh()
    work = pool.enqueue_mutation(engine_functions.raise_in_hook)

    drain(pool.name)

    assert "success" == pool.status(work).completion_status
    assert 1 == effects(work)
    assert "on_commit hook" in caplog.text
