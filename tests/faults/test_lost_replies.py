"""Answers that never came, and processes that stood still (faults A11, C3, D9)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError, connections, transaction

from django_workpool.models import PendingStart, Work
from django_workpool.runner.intake import Held, Stage
from django_workpool.testing import inline_executor, run_pass
from tests.app import functions
from tests.conformance.pools import fresh
from tests.conformance.sessions import beside

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def test_an_enqueue_whose_commit_was_not_answered_is_there_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C3: the reply is lost after the server has committed."""
    pool = fresh()
    pool.update()
    connection = connections["default"]
    commit = connection.commit
    lost: list[bool] = []

    def commit_without_reply() -> None:
        commit()
        if not lost:
            lost.append(True)
            msg = "database is locked"  # an error that is tried again
            raise OperationalError(msg)

    monkeypatch.setattr(connection, "commit", commit_without_reply)

    work = pool.enqueue_action(functions.echo)

    assert [True] == lost
    assert [work.pk] == list(Work.objects.using("default").values_list("pk", flat=True))
    assert 1 == PendingStart.objects.using("default").count()


def test_r18_what_was_asked_for_long_ago_does_not_begin_but_goes_back() -> None:
    """A11: a process that stood still must not act on what it knew before."""
    pool = fresh()
    pool.enqueue_action(functions.echo)
    run_pass(pool.name)
    (assignment,) = inline_executor().fetch()
    now = time.monotonic()
    stale = Held(assignment, asked_at=now - 5, fetched_at=now)
    young = Held(assignment, asked_at=now, fetched_at=now)

    assert (False, True) == (stale.claim(Stage.BEGUN), young.claim(Stage.BEGUN))
    assert stale.claim(Stage.RETURNED)
    assert not young.claim(Stage.RETURNED)


@pytest.mark.vendor("postgresql")
def test_an_open_transaction_on_a_new_pool_holds_up_nobody_else(
    live: Callable[..., LiveRunner],
) -> None:
    """D6, D9: a pause of a pool that has no row, not committed yet."""
    new, healthy = fresh("new"), fresh("healthy")
    live()

    def enqueue_into_both() -> str | None:
        new.enqueue_action(functions.echo)
        work = healthy.enqueue_action(functions.echo)
        return healthy.wait(work, 20).completion_status

    with transaction.atomic(using="default"):
        new.pause()
        with beside(enqueue_into_both) as answer:
            status = answer()

    assert "success" == status
