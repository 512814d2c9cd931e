"""What executors do to the tables: fetch, complete, fence, give back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django_workpool.choices import CompletionStatus
from django_workpool.db import executor_statements, retry, serial
from django_workpool.db.dialect import to_keys, to_time, to_uuid
from django_workpool.db.session import Session
from django_workpool.engine.declare import level_in_force
from django_workpool.failpoints import TWICE, failpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

# With the longest wait between them, about a minute.
READ_BACK_TRIES = 60

Key = tuple["UUID", int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A work that a pass gave to a worker, with what is needed to run it.

    ``fn_type`` and ``fn_args`` are ``None`` if the ``Work`` row is gone.
    """

    work_id: UUID
    hand_out: int
    pool: str
    fn_handle: str
    attempt: int
    is_async: bool
    run_at: datetime | None
    fn_type: str | None
    fn_name: str
    fn_args: str | None
    enqueued_at: datetime | None
    level: str

    @property
    def key(self) -> Key:
        """What fences its completion."""
        return (self.work_id, self.hand_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Everything a worker holds: ``held`` maps each key to "was it canceled?"."""

    now: datetime | None
    held: dict[Key, bool]
    new: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ended; ``is_committed`` if a mutation wrote it itself."""

    assignment: Assignment
    worker_id: UUID
    status: str
    finished_at: datetime
    started_at: datetime | None = None
    return_value: str | None = None
    error_type: str = ""
    error: str = ""
    traceback: str = ""
    is_committed: bool = False


def fetch(using: str, worker_id: UUID, known: Iterable[Key]) -> Fetched:
    """Read what *worker_id* holds; arguments only of what is not *known*."""
    rows = Session(using).rows(
        executor_statements.FETCH, worker=worker_id, keys=to_keys(known, using)
    )
    held: dict[Key, bool] = {}
    new = []
    now = None
    for row in rows:
        work_id, hand_out = to_uuid(row[0]), row[1]
        now = to_time(row[7], using)
        held[work_id, hand_out] = bool(row[8])
        if row[9]:
            new.append(
                Assignment(
                    work_id=work_id,
                    hand_out=hand_out,
                    pool=row[2],
                    fn_handle=row[3],
                    attempt=row[4],
                    is_async=bool(row[5]),
                    run_at=to_time(row[6], using),
                    fn_type=row[10],
                    fn_name=row[11] or row[3],
                    fn_args=row[12],
                    enqueued_at=to_time(row[13], using),
                    level=level_in_force(row[14] or "WARNING", row[15] or ""),
                )
            )
    failpoint("fetch.after")
    return Fetched(now=now, held=held, new=tuple(new))


def write(using: str, endings: Sequence[Ending]) -> None:
    """Insert completions, all or none; repeating it is harmless (protocol R24)."""
    if not endings:
        return
    again = failpoint("complete.before_write") == TWICE
    with serial.unit(using):
        for _ in range(2 if again else 1):
            Session(using).write_rows(
                executor_statements.OUTBOX, [_row(ending) for ending in endings]
            )
        failpoint("complete.mid_batch")
    failpoint("complete.after_commit")


def _row(ending: Ending) -> tuple[object, ...]:
    assignment = ending.assignment
    return (
        assignment.pool,
        assignment.work_id,
        assignment.hand_out,
        ending.status,
        ending.return_value,
        ending.error_type,
        ending.error,
        ending.traceback,
        ending.started_at,
        ending.finished_at,
        ending.worker_id,
    )


def fence(
    using: str,
    assignment: Assignment,
    *,
    return_value: str,
    started_at: datetime,
    finished_at: datetime,
) -> bool:
    """Lock the work's hand-out and write its success, inside the mutation (R23).

    Returns:
        False if the row is gone or carries another hand-out: the caller rolls back.
    """
    failpoint("mutation.before_lock")
    count = Session(using).write(
        executor_statements.FENCE,
        work_id=assignment.work_id,
        hand_out=assignment.hand_out,
        return_value=return_value,
        started_at=started_at,
        finished_at=finished_at,
    )
    failpoint("mutation.after_lock")
    return count == 1


def is_committed(using: str, assignment: Assignment) -> bool | None:
    """Read back whether a mutation committed, after an error on its COMMIT.

    The row lock waits for the end of the old session.

    Returns:
        True: its completion is there.  False: it left nothing, and may run again.
        ``None``: its hand-out is over, whatever became of it.
    """

    def ask() -> bool | None:
        session = Session(using)
        key = {"work_id": assignment.work_id, "hand_out": assignment.hand_out}
        with serial.unit(using):
            row = session.rows(executor_statements.READ_BACK_LOCK, **key)
            if session.rows(executor_statements.READ_BACK, **key):
                return True
            return False if row else None

    # Nobody else can tell: worth waiting for a server that restarts.
    return retry.retried(ask, using=using, tries=READ_BACK_TRIES)


def give_back(using: str, keys: Sequence[Key]) -> None:
    """Return works that have not begun to their old place, uncounted (R18).

    What was canceled stays: it ends canceled at the next fetch (R20).
    """
    if not keys:
        return
    failpoint("giveback.before")
    with serial.unit(using):
        Session(using).write_rows(executor_statements.GIVE_BACK, keys)
    failpoint("giveback.after")


def canceled(assignment: Assignment, worker_id: UUID, now: datetime) -> Ending:
    """Return the ending of a work that was canceled before it began."""
    return Ending(
        assignment=assignment,
        worker_id=worker_id,
        status=CompletionStatus.CANCELED.value,
        finished_at=now,
    )


def unstorable(ending: Ending, error: BaseException) -> Ending:
    """Return the ending of a work whose own ending the database refused."""
    name = type(error).__name__
    return replace(
        ending,
        status=CompletionStatus.ERROR.value,
        return_value=None,
        error_type=name,
        error=f"The outcome {ending.status} could not be stored: {name}.",
        traceback="",
    )
