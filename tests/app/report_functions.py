"""Functions and receivers for the tests of events and signals."""

from __future__ import annotations

import os
from typing import Any, Final

from django_workpool import action, mutation, signals
from tests.journal import journaled, write

# Set in the environment of a runner, so that its workers witness signals.
VARIABLE: Final = "WORKPOOL_TEST_RECEIVERS"


@action
def confide(secret: str) -> dict[str, str]:
    """Return what nobody else may read."""
    with journaled():
        return {"secret": secret}


@action
def confide_and_fail(secret: str) -> None:
    """Fail with a secret in hand, and keep it."""
    with journaled():
        msg = f"after {len(secret)} letters"
        raise ValueError(msg)


@mutation
def confide_in_transaction(secret: str) -> str:
    """Return what nobody else may read, from a transaction."""
    with journaled():
        return secret


class _ReceiverError(Exception):
    """A receiver of the tests broke, as it should."""


def _witness(name: str) -> Any:
    def receiver(*, work_id: Any, **fields: Any) -> None:
        known = {key: fields[key] for key in ("pool", "fn_name")}
        more = {key: fields[key] for key in ("attempt", "status") if key in fields}
        write("signal", name=name, work_id=str(work_id), **known, **more)
        msg = "this receiver always breaks"
        raise _ReceiverError(msg)

    return receiver


def connect() -> None:
    """Witness the signals of this process in the journal; every receiver raises."""
    for name in signals.__all__:
        getattr(signals, name).connect(_witness(name), weak=False)


if os.environ.get(VARIABLE):
    connect()
