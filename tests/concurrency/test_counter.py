"""Must hold: reading, changing and writing in a pool of one loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from django_workpool.models import CompletedWork
from tests.app import functions
from tests.app.models import Counter
from tests.conformance.pools import fresh
from tests.conformance.threads import together
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])


def test_500_increments_from_8_threads_end_at_500(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    live("--processes", "2")
    pool = fresh("counter", max_parallelism=1)

    works = together(
        lambda _: pool.enqueue_mutation(functions.increment), callers=500, sessions=8
    )
    records = CompletedWork.objects.using("default").for_pool(pool.name)
    until(lambda: records.count() == 500, "500 increments", 90)

    assert 500 == Counter.objects.using("default").get().value
    assert {"success"} == set(records.values_list("completion_status", flat=True))
    assert set(range(1, 501)) == {
        int(value or 0) for value in records.values_list("return_value", flat=True)
    }
    assert 1 == journal.peak(pool.name)
    assert sorted(ids(works)) == sorted(journal.begins(pool.name))
