"""The works of the demo: enqueue them, then follow them to their end."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter as Tally
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.db import connections

from demo.models import Counter, Weather
from demo.registration import register
from demo.workpools import (
    COUNTER_NAME,
    POOLS,
    counter,
    increment,
    scrape,
    scrape_city,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

SIGN_UPS = 100
CITIES = 40
THREADS = 8
INCREMENTS_PER_THREAD = 20
POLL_SECONDS = 0.2


class LoadError(Exception):
    """The works did not end in time."""


@dataclass(kw_only=True)
class Load:
    """What was enqueued, and what it should add to the database.

    Attributes:
        addresses: Who must get exactly one mail.
        work_ids: By pool, in the order of enqueue.
        counter_before: The counter before the first increment.
        weather_before: Rows of weather before the first scrape.
        statuses: By pool: how many works ended with which completion status.
    """

    addresses: list[str] = field(default_factory=list)
    work_ids: dict[str, list[UUID]] = field(default_factory=dict)
    counter_before: int = 0
    weather_before: int = 0
    statuses: dict[str, Tally[str | None]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many works there are."""
        return sum(map(len, self.work_ids.values()))


def counter_value() -> int:
    """Read the counter; 0 while there is none."""
    values = Counter.objects.filter(name=COUNTER_NAME).values_list("value", flat=True)
    return values.first() or 0


def enqueue() -> Load:
    """Enqueue everything: a batch, eight threads at once, and one by one."""
    load = Load(counter_before=counter_value(), weather_before=Weather.objects.count())
    cities = [{"city": f"City {number}"} for number in range(1, CITIES + 1)]
    batch = scrape.enqueue_action_batch(scrape_city, cities)
    load.work_ids["scrape"] = [work.id for work in batch]
    load.work_ids["counter"] = _enqueue_increments()
    sign_ups = [register(address) for address in _addresses()]
    load.addresses = [sign_up.email for sign_up in sign_ups]
    load.work_ids["emails"] = [
        sign_up.work_id for sign_up in sign_ups if sign_up.work_id
    ]
    return load


def _addresses() -> list[str]:
    # A database that was used before knows the addresses of the former run.
    run = uuid.uuid4().hex[:8]
    return [f"user{number}-{run}@example.com" for number in range(1, SIGN_UPS + 1)]


def _enqueue_increments() -> list[UUID]:
    barrier = threading.Barrier(THREADS, timeout=30)

    def enqueue_some(_thread: int) -> list[UUID]:
        try:
            barrier.wait()
            return [
                counter.enqueue_mutation(increment).id
                for _number in range(INCREMENTS_PER_THREAD)
            ]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(THREADS) as threads:
        parts = list(threads.map(enqueue_some, range(THREADS)))
    return [work_id for part in parts for work_id in part]


def follow(
    load: Load,
    *,
    timeout: float,
    check_alive: Callable[[], None],
    show: Callable[[str], None],
) -> None:
    """Wait until every work has ended.

    Args:
        load: The works; ``statuses`` is filled.
        timeout: Seconds.
        check_alive: Called often; raises when waiting has become useless.
        show: Takes the progress line.

    Raises:
        LoadError: Not finished in time.
    """
    deadline = time.monotonic() + timeout
    open_ids = {name: list(ids) for name, ids in load.work_ids.items()}
    load.statuses = {name: Tally() for name in open_ids}
    pause = threading.Event()
    while True:
        _look(open_ids, load.statuses)
        show(progress(load))
        if not any(open_ids.values()):
            return
        check_alive()
        if time.monotonic() > deadline:
            message = f"Not all works ended within {timeout:.0f} s: {progress(load)}"
            raise LoadError(message)
        pause.wait(POLL_SECONDS)


def _look(
    open_ids: dict[str, list[UUID]], statuses: dict[str, Tally[str | None]]
) -> None:
    for pool in POOLS:
        ids = open_ids[pool.name]
        still_open = []
        for work_id, status in zip(ids, pool.status_batch(ids), strict=True):
            if status is None or status.kind == "completed":
                outcome = None if status is None else status.completion_status
                statuses[pool.name][outcome] += 1
            else:
                still_open.append(work_id)
        open_ids[pool.name] = still_open


def progress(load: Load) -> str:
    """Return how many works of each pool have ended, in one line."""
    parts = (
        f"{name} {load.statuses[name].total()}/{len(ids)}"
        for name, ids in sorted(load.work_ids.items())
    )
    return "  ".join(parts)
