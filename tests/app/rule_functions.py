"""Functions for the tests of the rules of the protocol."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from django.db import transaction

from django_workpool import mutation
from tests.journal import directory, journaled, write

if TYPE_CHECKING:
    from collections.abc import Callable

POLL = 0.005


@mutation
def hold_in_hook(name: str) -> dict[str, int]:
    """Commit, and wait in a hook until the test lets it go."""
    with journaled():
        transaction.on_commit(_holding(name))
        return _me()


def _holding(name: str) -> Callable[[], None]:
    def hook() -> None:
        write("hook", **_me())
        (directory() / f"{name}.begun").touch()
        while not (directory() / f"{name}.go").exists():
            time.sleep(POLL)
        write("hook_end", **_me())

    return hook


def _me() -> dict[str, int]:
    return {"pid": os.getpid(), "thread": threading.get_ident()}
