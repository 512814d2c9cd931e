"""Generated snapshots: everything that a pass can read, likely or not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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


@dataclass(frozen=True)
class _Parts:
    """The works of one snapshot by where they are."""

    due: tuple[Due, ...]
    running: tuple[Running, ...]


_pools = st.builds(
    pool,
    max_parallelism=st.integers(0, 8),
    status_ttl=st.sampled_from([None, timedelta(0), timedelta(days=1)]),
    paused=st.sampled_from([False, False, False, True]),
    paused_until=st.sampled_from(
        [None, NOW - timedelta(seconds=1), NOW, NOW + timedelta(seconds=1)]
    ),
)


@st.composite
def _workers(draw: st.DrawFn) -> tuple[Executing, ...]:
    known = st.sets(st.sampled_from(sorted(HANDLES))).map(
        lambda names: {name: HANDLES[name] for name in sorted(names)}
    )
    chosen = draw(st.sets(st.integers(0, len(WORKERS) - 1)))
    return tuple(
        executing(
            number,
            threads=draw(st.integers(0, 6)),
            coroutines=draw(st.integers(0, 6)),
            handles=draw(st.one_of(st.just(HANDLES), known)),
        )
        for number in sorted(chosen)
    )


@st.composite
def _parts(draw: st.DrawFn) -> _Parts:
    handles = st.sampled_from([*HANDLES, UNKNOWN])
    numbers = draw(st.sets(st.integers(1, 40), max_size=20))
    rows = [
        due(
            number,
            fn_handle=draw(handles),
            rank=draw(st.integers(-2, 2)),
            run_at=NOW + timedelta(seconds=draw(st.integers(-2, 1))),
        )
        for number in sorted(numbers)
    ]
    # Beside works of their own, some that were given back while the pass read.
    others = st.one_of(st.integers(50, 70), st.sampled_from(sorted(numbers) or [50]))
    held = sorted(draw(st.sets(others, max_size=10)))
    lanes = draw(
        st.lists(
            st.integers(1, 14), min_size=len(held), max_size=len(held), unique=True
        )
    )
    running = [
        in_progress(
            number,
            lane,
            worker_id=draw(st.sampled_from([*WORKERS, *ENDED, ELSEWHERE])),
            is_async=draw(st.booleans()),
            cancel_requested=draw(st.booleans()),
        )
        for number, lane in zip(held, lanes, strict=True)
    ]
    return _Parts(
        due=tuple(sorted(rows, key=order)),
        running=tuple(sorted(running, key=lambda row: row.lane)),
    )


def order(row: Due) -> tuple[int, datetime, int]:
    """Return the key of the order in which works start."""
    return (row.rank, row.run_at, row.id)


@st.composite
def _completions(draw: st.DrawFn, parts: _Parts) -> tuple[Completion, ...]:
    rows = [
        *((row.work_id, row.hand_out) for row in parts.running),
        # Late: of a former hand-out, of a work that waits, of one nobody knows.
        *((row.work_id, row.hand_out - 1) for row in parts.running),
        *((row.work_id, 7) for row in parts.due),
        (work(99), 990),
    ]
    chosen = draw(st.lists(st.sampled_from(rows), max_size=8))
    return tuple(
        Completion(number, work_id, hand_out, draw(st.sampled_from(STATUSES)))
        for number, (work_id, hand_out) in enumerate(chosen, start=1)
    )


@st.composite
def _cancelations(draw: st.DrawFn, parts: _Parts) -> tuple[Cancelation, ...]:
    waiting = {row.work_id: row.id for row in parts.due}
    works = [*waiting, *(row.work_id for row in parts.running), work(98)]
    chosen = draw(st.lists(st.sampled_from(works), max_size=5))
    return tuple(
        Cancelation(number, work_id, waiting.get(work_id))
        for number, work_id in enumerate(chosen, start=1)
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw a snapshot as a pass could read it."""
    parts = draw(_parts())
    keys = [(row.work_id, row.hand_out) for row in parts.running]
    marks = st.sets(st.sampled_from(keys)) if keys else st.just(set())
    ended = tuple(
        Ended(worker_id, "killed", draw(st.none() | marks.map(frozenset)))
        for worker_id in ENDED
    )
    kinds = st.sampled_from(["action", "mutation"])
    lost = {
        row.work_id: Lost(draw(kinds), draw(st.integers(0, 4)))
        for row in parts.running
        if row.worker_id in ENDED
    }
    held = st.sets(st.sampled_from([row.work_id for row in parts.running] or [work(0)]))
    ages = st.none() | st.integers(0, 2).map(lambda days: NOW - timedelta(days=days))
    return Snapshot(
        pool=draw(_pools),
        generation=draw(st.integers(1, 2**40)),
        running=parts.running,
        completions=draw(_completions(parts)),
        cancelations=draw(_cancelations(parts)),
        due=parts.due,
        workers=draw(_workers()),
        ended=ended,
        lost=lost,
        unavailable=frozenset(draw(st.just(set()) | held)),
        oldest_completed_at=draw(ages),
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
