"""Generated snapshots: everything that a pass can read, likely or not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from hypothesis import strategies as st

from django_workpool.planner.snapshot import (
    COROUTINE,
    THREAD,
    Cancelation,
    Completion,
    Due,
    Ended,
    Executing,
    Lost,
    PoolOptions,
    Running,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NOW = datetime(2026, 2, 28, 12, tzinfo=UTC)
HANDLES: Mapping[str, str] = {
    "app.send": THREAD,
    "app.scrape": THREAD,
    "app.fetch": COROUTINE,
}
UNKNOWN = "app.forgotten"
WORKERS = tuple(UUID(int=1_000 + n) for n in range(3))
ENDED = tuple(UUID(int=2_000 + n) for n in range(2))
# Of another runner: neither ready nor proven dead.
ELSEWHERE = UUID(int=3_000)
STATUSES = ("success", "error", "timeout", "canceled", "nonsense")


def work(number: int) -> UUID:
    """Return the id of the work called *number*."""
    return UUID(int=number)


def pool(**options: Any) -> PoolOptions:
    """Return the options of a pool, with room for ten."""
    given = {"max_parallelism": 10, "status_ttl": None, "log_level": "WARNING"}
    return PoolOptions(name="pool", **{**given, **options})


def executing(
    number: int = 0,
    *,
    threads: int = 100,
    coroutines: int = 100,
    handles: Mapping[str, str] = HANDLES,
) -> Executing:
    """Return a ready worker, with room for everything."""
    return Executing(WORKERS[number], dict(handles), threads, coroutines)


def due(number: int, **columns: Any) -> Due:
    """Return a row of the queue whose id and work are *number*."""
    given = {"fn_handle": "app.send", "rank": 0, "run_at": NOW}
    return Due(id=number, work_id=work(number), **{**given, **columns})


def in_progress(number: int, lane: int, **columns: Any) -> Running:
    """Return a row in progress; its hand-out is its number times ten."""
    given = {"hand_out": number * 10, "attempt": 1, "worker_id": WORKERS[0], "place": 1}
    return Running(work_id=work(number), lane=lane, **{**given, **columns})


def order(row: Due) -> tuple[int, datetime, int]:
    """Return the key of the order in which works start."""
    return (row.rank, row.run_at, row.id)


class _Rows:
    """The tables of one snapshot, from one seed; a smaller size takes rows away."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def at(self, *place: object) -> Random:
        """Return the dice of one place, which no other place moves."""
        return Random(f"{self.seed} {place}")

    def pool(self) -> PoolOptions:
        dice = self.at("pool")
        return pool(
            max_parallelism=dice.choice([0, 1, 2, 3, 5, 8, 8]),
            status_ttl=dice.choice([None, timedelta(0), timedelta(days=1)]),
            paused=dice.random() < 0.2,
            paused_until=dice.choice(
                [None, *(NOW + timedelta(seconds=n) for n in (-1, 0, 1))]
            ),
        )

    def workers(self) -> tuple[Executing, ...]:
        dice = self.at("workers")
        known = [HANDLES, HANDLES, {"app.send": THREAD}, {}]
        return tuple(
            executing(
                number,
                threads=dice.randint(0, 3),
                coroutines=dice.randint(0, 3),
                handles=dice.choice(known),
            )
            for number in range(len(WORKERS))
            if dice.random() < 0.7
        )

    def due(self, count: int) -> tuple[Due, ...]:
        rows = []
        for number in range(1, count + 1):
            dice = self.at("due", number)
            handle = dice.choice([*HANDLES, *HANDLES, UNKNOWN])
            run_at = NOW + timedelta(seconds=dice.choice([-2, -1, -1, 0, 1]))
            rank = dice.randint(-2, 2)
            rows.append(due(number, fn_handle=handle, rank=rank, run_at=run_at))
        return tuple(sorted(rows, key=order))

    def running(self, count: int, waiting: int) -> tuple[Running, ...]:
        lanes = self.at("lanes").sample(range(1, 15), 14)
        rows = []
        for number, lane in zip(range(count), lanes, strict=False):
            dice = self.at("running", number)
            # Beside works of their own, some that were given back meanwhile.
            is_back = number < waiting and dice.random() < 0.2
            rows.append(
                in_progress(
                    number + 1 if is_back else number + 51,
                    lane,
                    worker_id=dice.choice([*WORKERS, *ENDED, *ENDED, ELSEWHERE]),
                    is_async=dice.random() < 0.4,
                    cancel_requested=dice.random() < 0.3,
                )
            )
        return tuple(sorted(rows, key=lambda row: row.lane))

    def completions(
        self, count: int, waiting: tuple[Due, ...], running: tuple[Running, ...]
    ) -> tuple[Completion, ...]:
        rows = [
            *((row.work_id, row.hand_out) for row in running),
            *((row.work_id, row.hand_out) for row in running),
            # Late: of a former hand-out, of a work that waits, of one nobody knows.
            *((row.work_id, row.hand_out - 1) for row in running),
            *((row.work_id, 7) for row in waiting[:2]),
            (work(99), 990),
        ]
        dice = self.at("completions")
        return tuple(
            Completion(number, *dice.choice(rows), dice.choice(STATUSES))
            for number in range(1, count + 1)
        )

    def cancelations(
        self, count: int, waiting: tuple[Due, ...], running: tuple[Running, ...]
    ) -> tuple[Cancelation, ...]:
        starts = {row.work_id: row.id for row in waiting}
        works = [*starts, *(row.work_id for row in running), work(98)]
        dice = self.at("cancelations")
        chosen = [dice.choice(works) for _ in range(count)]
        return tuple(
            Cancelation(number, work_id, starts.get(work_id))
            for number, work_id in enumerate(chosen, start=1)
        )

    def ended(self, running: tuple[Running, ...]) -> tuple[Ended, ...]:
        dice = self.at("ended")
        keys = [(row.work_id, row.hand_out) for row in running]
        begun = [
            None,
            *(frozenset(k for k in keys if dice.random() < 0.5) for _ in "ab"),
        ]
        return tuple(Ended(worker, "killed", dice.choice(begun)) for worker in ENDED)

    def lost(self, running: tuple[Running, ...]) -> dict[UUID, Lost]:
        dice = self.at("lost")
        return {
            row.work_id: Lost(dice.choice(["action", "mutation"]), dice.randint(0, 4))
            for row in running
            if row.worker_id in ENDED
        }

    def unavailable(self, running: tuple[Running, ...]) -> frozenset[UUID]:
        dice = self.at("unavailable")
        share = dice.choice([0, 0, 0.3])
        return frozenset(row.work_id for row in running if dice.random() < share)

    def oldest(self) -> datetime | None:
        return self.at("age").choice([None, NOW, NOW - timedelta(days=2)])


def _snapshot(
    seed: int, waiting: int, busy: int, endings: int, requests: int
) -> Snapshot:
    rows = _Rows(seed)
    due_rows = rows.due(waiting)
    running = rows.running(busy, waiting)
    return Snapshot(
        pool=rows.pool(),
        generation=1 + seed,
        running=running,
        completions=rows.completions(endings, due_rows, running),
        cancelations=rows.cancelations(requests, due_rows, running),
        due=due_rows,
        workers=rows.workers(),
        ended=rows.ended(running),
        lost=rows.lost(running),
        unavailable=rows.unavailable(running),
        oldest_completed_at=rows.oldest(),
    )


def snapshots() -> st.SearchStrategy[Snapshot]:
    """Draw a snapshot as a pass could read it; it shrinks by its numbers of rows."""
    return st.builds(
        _snapshot,
        seed=st.integers(0, 2**32),
        waiting=st.sampled_from(range(21)),
        busy=st.sampled_from([0, 1, 2, 3, 4, 6, 10]),
        endings=st.sampled_from([0, 0, 1, 2, 4, 8]),
        requests=st.sampled_from([0, 0, 1, 2, 4]),
    )


def permuted(snapshot: Snapshot, shuffle: Callable[[list[Any]], Any]) -> Snapshot:
    """Return the same rows, each table in an order of its own."""

    def mixed(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        given = list(rows)
        shuffle(given)
        return tuple(given)

    return replace(
        snapshot,
        running=mixed(snapshot.running),
        completions=mixed(snapshot.completions),
        cancelations=mixed(snapshot.cancelations),
        due=mixed(snapshot.due),
        workers=mixed(snapshot.workers),
        ended=mixed(snapshot.ended),
    )
