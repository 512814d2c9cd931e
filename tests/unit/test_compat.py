"""UUIDs of version 7 on every Python."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import TYPE_CHECKING
from uuid import RFC_4122, UUID

import pytest

from django_workpool import compat
from django_workpool.compat import UUID7Generator, uuid7

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORK = """
import os, runpy, sys
generator = runpy.run_path(sys.argv[1])["UUID7Generator"]()
generator._lock.acquire()
child = os.fork()
if child == 0:
    generator()
    os._exit(0)
generator._lock.release()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(params=["public", "own"])
def make(request: pytest.FixtureRequest) -> Callable[[], UUID]:
    """Return what this Python offers, and what older ones get."""
    return {"public": uuid7, "own": UUID7Generator()}[request.param]


def test_an_id_is_a_uuid_of_version_7(make: Callable[[], UUID]) -> None:
    """A1."""
    made = make()

    assert type(made) is UUID
    assert (7, RFC_4122) == (made.version, made.variant)


def test_an_id_begins_with_the_time_in_milliseconds(make: Callable[[], UUID]) -> None:
    before = time.time_ns() // 1_000_000

    stamp = make().int >> 80

    assert before - 1 <= stamp <= time.time_ns() // 1_000_000 + 1


def test_ids_of_one_process_ascend(make: Callable[[], UUID]) -> None:
    made = [make() for _ in range(20_000)]

    assert sorted(set(made)) == made


@pytest.fixture
def _hasty_threads() -> Iterator[None]:
    """Switch threads as often as possible."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    yield

    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("_hasty_threads")
def test_ids_differ_between_threads_by_more_than_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, barrier = UUID7Generator(), Barrier(8)
    monkeypatch.setattr(compat, "time", SimpleNamespace(time_ns=lambda: 0))
    monkeypatch.setattr(compat, "os", SimpleNamespace(urandom=bytes))

    def run(_number: int) -> list[UUID]:
        barrier.wait()
        return [make() for _ in range(2_000)]

    with ThreadPoolExecutor(8) as threads:
        batches = list(threads.map(run, range(8)))

    assert len({made for batch in batches for made in batch}) == 16_000
    assert [sorted(batch) for batch in batches] == batches


def test_ids_ascend_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([2_000_000_000, 1_000_000_000, 1_000_000_000, 3_000_000_000])
    monkeypatch.setattr(compat, "time", SimpleNamespace(time_ns=lambda: next(clock)))
    make = UUID7Generator()

    made = [make() for _ in range(4)]

    assert sorted(set(made)) == made
    assert [number.int >> 80 for number in made] == [2_000, 2_000, 2_000, 3_000]


def test_a_fork_while_the_lock_is_held_leaves_no_dead_lock() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, compat.__file__],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.stdout.strip() == "0"
