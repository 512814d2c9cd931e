"""One call of each hot statement on the database of ``bulk``, and its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from django_workpool.db import executor_statements, statements
from django_workpool.db.session import Statement
from django_workpool.planner.admission import MAX_STARTS
from django_workpool.planner.plan import MAX_CANCELATIONS, MAX_COMPLETIONS
from tests.engine.bulk import (
    FIRST_COMPLETED,
    FIRST_PENDING,
    FIRST_RUNNING,
    FREE_LANES,
    IN_PROGRESS,
    LANES,
    NOW,
    POOL,
    WORKERS,
    work_id,
    worker_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# So many keys are given where a statement takes a list of them.
KEYS: Final = 40
_BATCH: Final = range(KEYS)
NEW: Final = [UUID(int=2_000_000 + n) for n in _BATCH]
RUNNING: Final = [FIRST_RUNNING + n for n in _BATCH]
PENDING: Final = [FIRST_PENDING + n for n in _BATCH]
ENDED: Final = [FIRST_COMPLETED + n for n in _BATCH]
HELD_BY_ONE: Final = IN_PROGRESS // WORKERS
# What the first worker holds, and the row after the last of it.
_HELD: Final = [FIRST_RUNNING + n * WORKERS for n in range(HELD_BY_ONE)]


@dataclass(frozen=True)
class Case:
    """A statement, its parameters, and the number of rows that it gives or writes.

    Statements of a pass run with the settings of a pass, and so does one that both a
    pass and an executor use, in a second case.
    """

    name: str
    statement: Statement
    rows: int
    is_in_pass: bool
    is_write: bool = False
    # It counts what each worker holds, so it looks at all that is in progress.
    counts_running: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    keys: list[tuple[Any, ...]] | None = None

    def __str__(self) -> str:
        """Return the name, and where it runs."""
        return f"{self.name}{'-pass' if self.is_in_pass else ''}"


def _read(rows: int, keys: Any = None, **params: Any) -> dict[str, Any]:
    return {"rows": rows, "keys": keys, "params": params}


def _write(rows: int, keys: Any = None, **params: Any) -> dict[str, Any]:
    return {"rows": rows, "keys": keys, "params": params, "is_write": True}


def _ids(numbers: list[int]) -> list[tuple[Any, ...]]:
    return [(work_id(number),) for number in numbers]


def _pairs(numbers: list[int]) -> list[tuple[Any, ...]]:
    return [(work_id(number), number) for number in numbers]


_LOST: Final = [(work_id(n), "error", "WorkerLostError", "lost") for n in RUNNING]
_STARTS = [
    (number, False, 10**12 + number, worker_id(0), FREE_LANES + number, 1)
    for number in PENDING
]
_ENDED: Final = [(n, work_id(n), n, "success") for n in RUNNING]
_ENDINGS = [
    (POOL, work_id(n), n, "success", "null", "", "", "", NOW, NOW, worker_id(n))
    for n in RUNNING
]
_LOOP_ROW = {
    "state": "running",
    "run_at": None,
    "saturated": False,
    "generation": 2,
    "runner": None,
    "pass_ms": 1.5,
}
_HEAD_READS = {"pool": POOL, "limit": MAX_STARTS}

OF_PASS: Final[dict[str, dict[str, Any]]] = {
    "LOCK_LOOP": _read(1, pool=POOL),
    "READ_LOOP": _read(1, pool=POOL),
    "POOL_AND_WORKERS": {**_read(WORKERS, pool=POOL), "counts_running": True},
    "HANDLES": _read(1, digest="digest"),
    "IN_PROGRESS": _read(LANES, pool=POOL),
    "LOCK_IN_PROGRESS": _read(KEYS, _ids(RUNNING)),
    "STILL_IN_PROGRESS": _read(KEYS, _ids(RUNNING)),
    "COMPLETIONS": _read(LANES, pool=POOL, limit=MAX_COMPLETIONS),
    "COMPLETIONS_OF": _read(KEYS, _ids(RUNNING), pool=POOL),
    "LOST_WORKS": _read(KEYS, _ids(RUNNING)),
    "CANCELATIONS": _read(MAX_CANCELATIONS, pool=POOL, limit=MAX_CANCELATIONS),
    "DUE_HEAD": _read(MAX_STARTS, **_HEAD_READS),
    "CONSUME_COMPLETIONS": _write(KEYS, _ENDED),
    "CANCEL_PENDING": _write(KEYS, [(n,) for n in PENDING], now=NOW),
    "FLAG_CANCELED": _write(KEYS, _ids(RUNNING)),
    "DELETE_CANCELATIONS": _write(KEYS, [(n,) for n in PENDING]),
    "END_LOST": _write(KEYS, _LOST, now=NOW),
    "COUNT_DEATHS": _write(KEYS, _ids(RUNNING)),
    "START": _write(KEYS, _STARTS, now=NOW),
    "DROP_COMPLETION": _write(KEYS, _ENDED, now=NOW),
    "DROP_START": _write(KEYS, [(n,) for n in PENDING], now=NOW),
    "DROP_RUNNING": _write(KEYS, _ids(RUNNING), now=NOW),
    "EXPIRED": _read(200, pool=POOL, before=NOW - timedelta(hours=1), limit=200),
    "DELETE_EXPIRED": _write(KEYS, _ids(ENDED)),
    "UPDATE_LOOP": _write(1, pool=POOL, now=NOW, **_LOOP_ROW),
    "INSERT_LOOP": _write(1, pool="new", generation=1),
    # Recovery gives back what a dead worker had not begun.
    "GIVE_BACK": _write(KEYS, _pairs(RUNNING)),
}
OF_EXECUTORS: Final[dict[str, dict[str, Any]]] = {
    "ENQUEUE": _write(
        KEYS,
        [(key, "{}") for key in NEW],
        pool=POOL,
        fn_type="action",
        fn_handle="app.f",
        fn_name="app.f",
    ),
    "KICK": _read(1, pool=POOL),
    "BACKSTOP": _read(10),
    # All but the first is known already, so that one is read with its arguments.
    "FETCH": _read(HELD_BY_ONE, _pairs(_HELD[1:]), worker=worker_id(FIRST_RUNNING)),
    "OUTBOX": _write(KEYS, _ENDINGS),
    "FENCE": _write(
        1,
        work_id=work_id(FIRST_RUNNING),
        hand_out=FIRST_RUNNING,
        return_value="null",
        started_at=NOW,
        finished_at=NOW,
    ),
    "READ_BACK_LOCK": _read(1, work_id=work_id(FIRST_RUNNING), hand_out=FIRST_RUNNING),
    "READ_BACK": _read(1, work_id=work_id(FIRST_RUNNING), hand_out=FIRST_RUNNING),
    "GIVE_BACK": _write(KEYS, _pairs(RUNNING)),
}


def found() -> dict[str, Statement]:
    """Return all statements of the two modules, by name."""
    return {
        name: value
        for module in (statements, executor_statements)
        for name, value in vars(module).items()
        if isinstance(value, Statement)
    }


def cases() -> Iterator[Case]:
    """Yield the cases of all statements that have one."""
    for name, statement in sorted(found().items()):
        for of, is_in_pass in ((OF_PASS, True), (OF_EXECUTORS, False)):
            if name in of:
                yield Case(name, statement, is_in_pass=is_in_pass, **of[name])
