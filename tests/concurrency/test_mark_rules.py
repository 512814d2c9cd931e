"""Protocol R21: what had begun is known after a death."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from django_workpool.runner import marks
from tests.app import functions
from tests.children import child_environment
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])


# --- R21 ------------------------------------------------------------------------------


_MARKING = """
import os, signal, sys
from pathlib import Path
from uuid import UUID
from django_workpool.runner.marks import Marks
marks = Marks(Path(sys.argv[1]), 4)
ended, next_, finished = [(UUID(text), 7) for text in sys.argv[2:]]
marks.set(finished)
marks.clear(finished)
# One lane: the first has ended, its completion is not committed, the second begins.
marks.set(ended)
marks.set(next_)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_r21_a_begin_does_not_overwrite_the_mark_of_the_work_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "marks"
    ended, following, finished = uuid4(), uuid4(), uuid4()

    code = subprocess.run(
        [
            sys.executable,
            "-c",
            _MARKING,
            str(path),
            *map(str, (ended, following, finished)),
        ],
        check=False,
        env=child_environment(),
    ).returncode

    assert -9 == code
    assert {(ended, 7), (following, 7)} == set(marks.read(path) or [])


def test_r21_a_begin_waits_while_no_place_for_its_mark_is_free(tmp_path: Path) -> None:
    ring = marks.Marks(tmp_path / "marks", 1)
    first, second = (uuid4(), 1), (uuid4(), 2)
    ring.set(first)

    with ThreadPoolExecutor(1) as other:
        begins = other.submit(ring.set, second)
        before = (begins.done(), marks.read(ring.path))
        ring.clear(first)
        begins.result(10)
    after = marks.read(ring.path)
    ring.close()

    assert (False, [first]) == before
    assert [second] == after


@pytest.mark.parametrize(
    ("point", "outcome", "begins"),
    [
        pytest.param("mark.before", "success", 1, id="not-begun-runs-later"),
        pytest.param("mark.after", "error", 0, id="marked-counts-as-begun"),
        pytest.param("complete.before_write", "error", 1, id="ended-but-not-written"),
        pytest.param("complete.after_commit", "success", 1, id="written-mark-remains"),
    ],
)
def test_r21_a_killed_worker_has_begun_exactly_what_it_marked(
    live: Callable[..., LiveRunner],
    journal: Journal,
    point: str,
    outcome: str,
    begins: int,
) -> None:
    # Each worker lets one work pass, and dies at its second.
    live(WORKPOOL_FAILPOINTS=f"{point}=kill*1@worker")
    pool = fresh(max_parallelism=1)

    first = pool.enqueue_action(functions.echo)
    pool.wait(first, timeout=30)
    second = pool.enqueue_action(functions.echo)
    end = pool.wait(second, timeout=30)

    assert (outcome, 0) == (end.completion_status, end.previous_attempts)
    assert [str(first.pk)] + [str(second.pk)] * begins == journal.begins(pool.name)
