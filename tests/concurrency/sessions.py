"""What the sessions of these tests do beside each other."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connections

from django_workpool.models import InProgressWork
from django_workpool.testing import inline_executor, run_pass
from tests.app import functions
from tests.conformance.begun import begin
from tests.conformance.pools import fresh
from tests.conformance.sessions import beside
from tests.conformance.stumbling import armed, wait_reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django_workpool import Workpool
    from django_workpool.engine.complete import Assignment
    from django_workpool.engine.loop import Passed
    from tests.journal import Journal

_Value = TypeVar("_Value")

END = "the end of the test"


def passing(pool: Workpool) -> Callable[[], Passed | None]:
    """Return what runs one pass in another session."""
    return lambda: run_pass(pool.name, with_worker=False)


@contextmanager
def standing(
    call: Callable[[], _Value], point: str, journal: Journal
) -> Iterator[Callable[[], _Value]]:
    """Let *call* stand at a failpoint in another session; yield what lets it go on."""
    with armed(f"{point}=wait:{point}", journal), beside(call) as answer:

        def goes_on() -> _Value:
            journal.release(point)
            return answer()

        try:
            wait_reached(journal, point)
            yield goes_on
        finally:
            # Also where the test failed: nothing else lets that thread end.
            journal.release(point)


def passed(found: Passed | None) -> Passed:
    """Return a pass that was made."""
    assert found is not None
    return found


def in_progress(pool: Workpool) -> dict[str, int]:
    """Return the hand-outs of the works in progress."""
    rows = InProgressWork.objects.using("default").for_pool(pool.name)
    return {
        str(work_id): number for work_id, number in rows.values_list("pk", "hand_out")
    }


def assignments(number: int) -> list[Assignment]:
    """Return so many works that were handed to the inline worker."""
    pool = fresh()
    pool.enqueue_action_batch(functions.echo, [None] * number)
    return begin(pool)


def execution(run: Assignment) -> Callable[[], None]:
    """Return what executes a hand-out in another session and writes its completion."""
    executor = inline_executor()
    return lambda: executor.finish(executor.execute(run))


def settings(*names: str) -> dict[str, str]:
    """Return settings of this thread's session on PostgreSQL, inside and outside."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name",
            [list(names)],
        )
        return dict(cursor.fetchall())


def execute(sql: str) -> None:
    """Execute a statement of the test's own in this thread's session."""
    with connections["default"].cursor() as cursor:
        cursor.execute(sql)


class Listener:
    """A session of its own that hears the notifications of PostgreSQL."""

    def __init__(self, channel: str) -> None:
        """Listen from now on."""
        self._channel = channel
        self._wrapper = connections.create_connection("default")
        self._wrapper.ensure_connection()
        with self._wrapper.cursor() as cursor:
            cursor.execute(f"LISTEN {channel}")

    def heard(self) -> list[str]:
        """Return all payloads that were committed before this call."""
        session: Any = self._wrapper.connection
        with self._wrapper.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [self._channel, END])
        payloads = []
        for note in session.notifies(timeout=10):
            if note.payload == END:
                break
            payloads.append(note.payload)
        return payloads

    def close(self) -> None:
        """End the session."""
        self._wrapper.close()


@contextmanager
def listening(channel: str = "workpool_loop") -> Iterator[Listener]:
    """Listen while the body runs."""
    listener = Listener(channel)
    try:
        yield listener
    finally:
        listener.close()
