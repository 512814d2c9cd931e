"""What every test gets: scratch databases, and a look for what it left behind."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING

import psutil
import pytest
from asgiref.sync import SyncToAsync
from django.db import connections

from testproject.test_settings import SCRATCH
from tests.journal import VARIABLE, Journal
from tests.live import LiveRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Seconds in which threads and children that are already ending may end.
GRACE = 5.0
# The servants of multiprocessing live as long as the process that uses them.
SERVANTS = ("multiprocessing.forkserver", "multiprocessing.resource_tracker")


def pytest_configure() -> None:
    """Make the folder of the SQLite files."""
    SCRATCH.mkdir(mode=0o700, exist_ok=True)


def pytest_unconfigure() -> None:
    """Remove it."""
    shutil.rmtree(SCRATCH, ignore_errors=True)


def pytest_report_header() -> list[str]:
    """Name the databases of this run."""
    return [
        f"database {alias}: {connections[alias].vendor}, "
        f"{connections[alias].settings_dict['TEST']['NAME']}"
        for alias in connections
    ]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is about another database."""
    marker = item.get_closest_marker("vendor")
    vendor = connections["default"].vendor
    if marker is not None and vendor not in marker.args:
        pytest.skip(f"is about {', '.join(marker.args)}; this run has {vendor}")


def _threads() -> set[threading.Thread]:
    # asgiref keeps one thread for all synchronous code of the process, and makes an
    # executor for each loop, whose thread ends when nobody holds the executor any more:
    # a recorded traceback may hold it for long.  We make no executor ourselves.
    kept = set(SyncToAsync.single_thread_executor._threads)
    idle = {one for one in threading.enumerate() if "ThreadPoolExecutor" in one.name}
    return set(threading.enumerate()) - kept - idle


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _is_leaked(child: psutil.Process) -> bool:
    try:
        command = " ".join(child.cmdline())
    except psutil.NoSuchProcess:
        return False
    return not any(servant in command for servant in SERVANTS)


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    """Fail a test that leaves threads or child processes behind."""
    threads, children = _threads(), _children()

    yield

    for thread in _threads() - threads:
        thread.join(GRACE)
    suspects = [child for child in _children() - children if _is_leaked(child)]
    _, alive = psutil.wait_procs(suspects, timeout=GRACE)
    for child in alive:
        child.kill()
    left = [thread.name for thread in _threads() - threads]
    left += [f"{child.pid}: {child}" for child in alive]
    assert not left, f"left behind: {left}"


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Give the functions of this test a journal, here and in child processes."""
    folder = tmp_path / "journal"
    folder.mkdir()
    monkeypatch.setenv(VARIABLE, str(folder))
    return Journal(folder)


@pytest.fixture
def live(
    transactional_db: None,
    journal: Journal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., LiveRunner]]:
    """Start real runners: ``live("--processes", "2")``; all are killed at the end.

    With ``ready=False`` it returns at once.  Further keywords join the environment.
    """
    monkeypatch.setenv("WORKPOOL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("WORKPOOL_FAILPOINTS_DIR", str(journal.path))
    runners: list[LiveRunner] = []

    def start(*arguments: str, ready: bool = True, **variables: str) -> LiveRunner:
        runner = LiveRunner(*arguments, **variables)
        runners.append(runner)
        return runner.wait_ready() if ready else runner

    yield start

    for runner in runners:
        runner.kill()
        # Shown by pytest where the test fails.
        print(runner.output)  # noqa: T201
