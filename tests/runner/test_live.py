"""A real runner with real workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_workpool.choices import WorkKind
from tests.app import functions
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def test_300_works_on_three_workers_use_the_limit_of_7_and_never_pass_it(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    """Must hold: every work once, peak overlap exactly 7."""
    pool = fresh("seven", max_parallelism=7)
    runner = live("--processes", "3")

    works = pool.enqueue_action_batch(
        functions.sleep, [{"seconds": 0.01 + 0.001 * (n % 21)} for n in range(300)]
    )
    ends = [pool.wait(work, timeout=60) for work in works]

    assert {WorkKind.COMPLETED} == {end.kind for end in ends}
    assert {"success"} == {end.completion_status for end in ends}
    assert sorted(str(work.pk) for work in works) == sorted(journal.begins(pool.name))
    assert 7 == journal.peak(pool.name)
    assert 0 == runner.stop(), runner.output
    assert "ERROR" not in runner.output
