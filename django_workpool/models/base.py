"""What the queue tables have in common: a pool's name, without a foreign key."""

from __future__ import annotations

from typing import Self, TypeVar

from django.db import models

POOL_NAME_BYTES = 63
HANDLE_LENGTH = 255
MAX_PARALLELISM_LIMIT = 10_000

_Row = TypeVar("_Row", bound=models.Model)


class QueueQuerySet(models.QuerySet[_Row]):
    """Rows of a table that has a ``pool`` column."""

    def for_pool(self, name: str) -> Self:
        """Keep the rows of the pool called *name*."""
        return self.filter(pool=name)


def pool_name(*, primary_key: bool = False) -> models.CharField[str, str]:
    """Return the column of a pool's name; no foreign key, so no rival can block."""
    return models.CharField(max_length=POOL_NAME_BYTES, primary_key=primary_key)


def handle() -> models.CharField[str, str]:
    """Return the column of a registered function's dotted name."""
    return models.CharField(max_length=HANDLE_LENGTH)
