"""Failpoints and their rendezvous: in this process, and in live runners."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from django_workpool import failpoints
from django_workpool.models import MainLoop
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_workpool import Workpool
    from tests.journal import Journal

# For ``live(**NO_NETS)``: what nobody wakes sleeps for ever, so a lost wake-up shows.
NO_NETS: Final = {"WORKPOOL_TEST_BACKSTOP": "3600"}


@contextmanager
def armed(points: str, journal: Journal) -> Iterator[None]:
    """Arm failpoints in this process; those that wait meet in the journal's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKPOOL_FAILPOINTS", points)
        patch.setenv("WORKPOOL_FAILPOINTS_DIR", str(journal.path))
        failpoints.arm("runner", is_allowed=True)
        try:
            yield
        finally:
            failpoints.arm("runner", is_allowed=False)


def is_reached(journal: Journal, name: str) -> bool:
    """Say whether somebody waits, or has waited, at the rendezvous *name*."""
    return (journal.path / f"{name}.reached").exists()


def wait_reached(journal: Journal, name: str) -> None:
    """Wait until somebody waits at *name*; ``journal.release`` lets him go."""
    until(lambda: is_reached(journal, name), f"somebody at the rendezvous {name}")


def loop_state(pool: Workpool) -> str | None:
    """Return the committed state of a pool's loop."""
    rows = MainLoop.objects.using("default").filter(pk=pool.name)
    return rows.values_list("state", flat=True).first()


def wait_asleep(pool: Workpool) -> None:
    """Wait until a pool's loop has committed that it sleeps."""
    until(lambda: loop_state(pool) == "idle", f"the loop of {pool.name} to be idle")
