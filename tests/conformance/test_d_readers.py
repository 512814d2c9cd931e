"""D. Readers: what other connections see of an end, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from django_workpool import WorkNotFinishedError
from django_workpool.models import CompletedWork, PendingCompletion
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.app.models import Effect
from tests.conformance.pools import fresh
from tests.conformance.sessions import beside
from tests.conformance.stumbling import armed, wait_reached

if TYPE_CHECKING:
    from django_workpool import Workpool
    from django_workpool.models import Work
    from tests.journal import Journal

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def run_assigned() -> None:
    """Run what passes gave to the inline worker, without another pass."""
    inline_executor().run()


def seen(pool: Workpool, work: Work) -> tuple[str, Any]:
    """Return what a reader gets: the result before the status, both from rows."""
    try:
        value = pool.result(work).return_value
    except WorkNotFinishedError:
        value = None
    return pool.status(work).kind, value


@pytest.mark.item("D5")
def test_a_reader_sees_status_and_result_appear_together(journal: Journal) -> None:
    pool = fresh()
    work = pool.enqueue_action(functions.echo, {"value": "result"})
    run_pass(pool.name)
    run_assigned()

    with (
        armed("completions.end=wait:moved,pass.before_commit=wait:done", journal),
        beside(lambda: run_pass(pool.name)) as passed,
    ):
        before = seen(pool, work)
        wait_reached(journal, "moved")
        when_moved = seen(pool, work)
        journal.release("moved")
        wait_reached(journal, "done")
        before_commit = seen(pool, work)
        journal.release("done")
        passed()
    after = seen(pool, work)

    assert [("in_progress", None)] * 3 == [before, when_moved, before_commit]
    assert ("completed", "result") == after


@pytest.mark.item("D5")
def test_a_reader_who_never_stops_sees_no_status_without_its_result(
    journal: Journal,
) -> None:
    pool = fresh()
    works = pool.enqueue_action_batch(functions.echo, [{"value": 1}] * 20)

    with beside(lambda: reads(pool, works, journal)) as found:
        journal.wait_begun("reads")
        drain(pool.name)
        journal.release("reads")
        seen_by_reader = found()

    # Recorded before the status was read, the status, recorded after it.
    assert {("pending", False)} < {read[1:] for read in seen_by_reader}
    assert not {(True, "pending"), (True, "in_progress")} & {
        read[:2] for read in seen_by_reader
    }
    assert ("completed", False) not in {read[1:] for read in seen_by_reader}
    assert {"completed"} == {pool.status(work).kind for work in works}


def reads(
    pool: Workpool, works: list[Work], journal: Journal
) -> set[tuple[bool, str, bool]]:
    """Read records, statuses and records again until the test has seen enough."""
    found: set[tuple[bool, str, bool]] = set()
    while not (journal.path / "reads.go").exists():
        before = recorded(works)
        kinds = [status.kind for status in pool.status_batch(works) if status]
        found |= set(zip(before, kinds, recorded(works), strict=True))
        (journal.path / "reads.begun").touch()
    return found


def recorded(works: list[Work]) -> list[bool]:
    """Say of each work whether its terminal record is there."""
    rows = CompletedWork.objects.using("default").in_bulk([work.pk for work in works])
    return [work.pk in rows for work in works]


@pytest.mark.item("D6")
def test_effect_and_completion_of_a_mutation_become_visible_together(
    journal: Journal,
) -> None:
    pool = fresh()
    work = pool.enqueue_mutation(functions.effect)
    run_pass(pool.name)
    names = ("before_lock", "after_lock", "before_commit", "after_commit")
    points = ",".join(f"mutation.{name}=wait:{name}" for name in names)

    with armed(points, journal), beside(run_assigned) as ran:
        seen = {name: look(work, journal, name) for name in names}
        ran()

    assert {
        "before_lock": (0, 0),
        "after_lock": (0, 0),
        "before_commit": (0, 0),
        "after_commit": (1, 1),
    } == seen


def look(work: Work, journal: Journal, name: str) -> tuple[int, int]:
    """Wait for a rendezvous, look from this connection, and let it go on."""
    wait_reached(journal, name)
    found = (
        Effect.objects.using("default").filter(work_id=work.pk).count(),
        PendingCompletion.objects.using("default").filter(work_id=work.pk).count(),
    )
    journal.release(name)
    return found
