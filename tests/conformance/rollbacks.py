"""Transactions that are undone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import transaction

if TYPE_CHECKING:
    from collections.abc import Iterator


class UndoneError(Exception):
    """Ends a transaction that must leave nothing."""


@contextmanager
def rolled_back(using: str = "default") -> Iterator[None]:
    """Run the block in a transaction, or a savepoint, that an error ends."""
    try:
        with transaction.atomic(using=using):
            yield
            _undo()
    except UndoneError:
        return


def _undo() -> None:
    raise UndoneError
