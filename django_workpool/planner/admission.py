"""The ordered list of named predicates that decides whether a work starts.

The pass asks them in order and stops at the first that fails; ``explain`` asks the same
list for all answers.  A new reason not to start is a new entry here, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django_workpool.planner.snapshot import THREAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from uuid import UUID

    from django_workpool.planner.snapshot import Due, Executing, PoolOptions

    Details = dict[str, object]

MAX_STARTS = 1_000


@dataclass(slots=True)
class Capacity:
    """What one worker has left while works are being given out."""

    worker: Executing
    threads: int
    coroutines: int

    def free(self, handle: str) -> int:
        """Return how many works of *handle* this worker can still take."""
        mode = self.worker.handles.get(handle)
        if mode is None:
            return 0
        return self.threads if mode == THREAD else self.coroutines

    def take(self, handle: str) -> None:
        """Use up one place for *handle*."""
        if self.worker.handles[handle] == THREAD:
            self.threads -= 1
        else:
            self.coroutines -= 1


class Admission:
    """The state of giving out slots: it shrinks with each admitted work."""

    def __init__(
        self,
        *,
        pool: PoolOptions,
        now: datetime,
        used_lanes: Iterable[int],
        workers: Iterable[Executing],
        canceled: frozenset[UUID] = frozenset(),
    ) -> None:
        """Start from the lanes in use and the free capacity of the workers."""
        self.pool = pool
        self.now = now
        self.canceled = canceled
        self.used = set(used_lanes)
        self.occupied = len(self.used)
        self.started = 0
        self.is_closed = False
        self.capacities = [
            Capacity(worker, worker.free_threads, worker.free_coroutines)
            for worker in workers
        ]
        self.known = frozenset(
            handle for entry in self.capacities for handle in entry.worker.handles
        )
        self._next_lane = 1

    @property
    def free_slots(self) -> int:
        """The slots that may still be given out."""
        return max(0, self.pool.max_parallelism - self.occupied)

    def failing(self, work: Due) -> Predicate | None:
        """Return the first predicate that *work* fails; ``None`` admits it."""
        for predicate in PREDICATES:
            if not predicate.passes(work, self):
                return predicate
        return None

    def best(self, handle: str) -> Capacity | None:
        """Return the worker with the most room for *handle*, if one has any."""
        best = max(self.capacities, key=lambda entry: entry.free(handle), default=None)
        return best if best is not None and best.free(handle) > 0 else None

    def give(self, work: Due) -> tuple[Executing, int]:
        """Take a lane and a worker for an admitted *work*."""
        capacity = self.best(work.fn_handle)
        if capacity is None:  # pragma: no cover - admitted works have one
            msg = f"No worker has room for {work.fn_handle}."
            raise RuntimeError(msg)
        capacity.take(work.fn_handle)
        while self._next_lane in self.used:
            self._next_lane += 1
        self.used.add(self._next_lane)
        self.occupied += 1
        self.started += 1
        return capacity.worker, self._next_lane


class Predicate(NamedTuple):
    """A named condition: does it hold, and with which numbers?

    ``is_general`` says that a work after this one cannot pass it either.
    """

    name: str
    passes: Callable[[Due, Admission], bool]
    details: Callable[[Due, Admission], Details]
    is_general: bool = False


def _paused(_work: Due, state: Admission) -> Details:
    return {"paused_until": state.pool.paused_until}


def _not_due(work: Due, state: Admission) -> Details:
    return {"run_at": work.run_at, "now": state.now}


def _slots(_work: Due, state: Admission) -> Details:
    return {
        "max_parallelism": state.pool.max_parallelism,
        "occupied": state.occupied,
        "started_before": state.started,
    }


def _capacity(work: Due, state: Admission) -> Details:
    return {
        "workers": len(state.capacities),
        "free": sum(entry.free(work.fn_handle) for entry in state.capacities),
    }


def knows(work: Due, state: Admission) -> bool:
    """Say whether a living worker that serves the pool knows the function."""
    # Where no worker serves the pool nothing can be said of what they know.
    return not state.capacities or work.fn_handle in state.known


PREDICATES: tuple[Predicate, ...] = (
    Predicate(
        "canceled",
        lambda work, state: work.work_id not in state.canceled,
        lambda work, state: {"requested": work.work_id in state.canceled},
    ),
    Predicate(
        "paused",
        lambda _work, state: not state.pool.is_paused(state.now),
        _paused,
        is_general=True,
    ),
    Predicate("not_due", lambda work, state: work.run_at <= state.now, _not_due),
    Predicate("known_function", knows, lambda work, _: {"function": work.fn_handle}),
    Predicate(
        "slots",
        lambda _work, state: (
            state.free_slots > 0 and state.started < MAX_STARTS and not state.is_closed
        ),
        _slots,
        is_general=True,
    ),
    Predicate(
        "executor_capacity",
        # What nobody knows waits for that alone.
        lambda work, state: (
            not knows(work, state) or state.best(work.fn_handle) is not None
        ),
        _capacity,
    ),
)
