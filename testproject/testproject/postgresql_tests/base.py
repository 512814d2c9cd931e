"""Django's PostgreSQL backend, except that a flush deletes instead of truncating.

TRUNCATE makes new files for every table, which costs half a second a test; the tables
of a test hold a few rows.  Nothing else differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.backends.postgresql import base
from django.db.backends.postgresql.operations import DatabaseOperations

if TYPE_CHECKING:
    from collections.abc import Sequence


class DeletingOperations(DatabaseOperations):
    """Empty tables row by row."""

    def sql_flush(
        self,
        style: Any,
        tables: Sequence[str],
        *,
        reset_sequences: bool = False,
        allow_cascade: bool = False,
    ) -> list[str]:
        """Return one DELETE a table; foreign keys are checked at the commit."""
        if reset_sequences or not tables:
            return super().sql_flush(
                style,
                tables,
                reset_sequences=reset_sequences,
                allow_cascade=allow_cascade,
            )
        names = map(self.quote_name, tables)
        return [f"DELETE FROM {name};" for name in names]  # noqa: S608 -- our tables


class DatabaseWrapper(base.DatabaseWrapper):
    """The backend of the tests."""

    ops_class = DeletingOperations
