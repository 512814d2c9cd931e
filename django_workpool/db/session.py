"""Run the fixed statements on one alias."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.db import connections

from django_workpool.db import clock
from django_workpool.db.dialect import Dialect, dialect_of, to_keys, to_parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


@dataclass(frozen=True, eq=False)
class Statement:
    """One hot statement: its text with holes, per way of moving rows.

    ``steps`` run everywhere, one after the other.  A move, which deletes rows here and
    inserts them there, is one statement where the database can (``moving``).
    """

    steps: tuple[str, ...]
    keys: tuple[str, ...] = ()
    moving: str = ""


@lru_cache(maxsize=256)
def texts(statement: Statement, dialect: Dialect) -> tuple[str, ...]:
    """Return the SQL of *statement* for *dialect*, ready for Django's cursor."""
    moves = dialect.moves_in_one and statement.moving
    keys = dialect.keys(statement.keys) if statement.keys else ""
    return tuple(
        text.format(keys=keys, **dialect.holes)
        for text in ((statement.moving,) if moves else statement.steps)
    )


class Session:
    """The fixed statements on the connection of *using*, in this thread."""

    def __init__(self, using: str) -> None:
        """Bind to the alias *using*."""
        self.using = using
        self.dialect = dialect_of(using)

    def rows(self, statement: Statement, **params: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement of one step."""
        (text,) = texts(statement, self.dialect)
        with connections[self.using].cursor() as cursor:
            cursor.execute(text, self._params(params))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def write(self, statement: Statement, **params: object) -> int:
        """Run all steps of a statement; return the row count of the last one."""
        return self._run(statement, params)[0]

    def _run(
        self, statement: Statement, params: dict[str, object]
    ) -> tuple[int, list[tuple[Any, ...]]]:
        """Return count and rows of the last step; rows only if it returns any."""
        prepared = self._params(params)
        with connections[self.using].cursor() as cursor:
            for text in texts(statement, self.dialect):
                cursor.execute(text, prepared)
            returns = cursor.description is not None
            return cursor.rowcount, cursor.fetchall() if returns else []

    def write_rows(
        self, statement: Statement, rows: Iterable[Sequence[object]], **params: object
    ) -> int:
        """Run a statement over the key list *rows*; nothing where it is empty."""
        keys = list(rows)
        if not keys:
            return 0
        return self.write(statement, keys=to_keys(keys, self.using), **params)

    def write_returning(
        self, statement: Statement, rows: Iterable[Sequence[object]], **params: object
    ) -> list[tuple[Any, ...]]:
        """Run a statement over *rows*; return what it returns, if the vendor can."""
        keys = to_keys(rows, self.using)
        return self._run(statement, {"keys": keys, **params})[1]

    def now(self) -> datetime:
        """Return the database's time."""
        return clock.now(self.using)

    def _params(self, params: dict[str, object]) -> dict[str, Any]:
        params.setdefault("now", self.own_time())
        return {key: to_parameter(value, self.using) for key, value in params.items()}

    def own_time(self) -> datetime | None:
        """Return the time to write, or ``None`` where the database knows it."""
        time = clock.injected()
        if time is None and self.dialect.vendor == "sqlite":
            return clock.host_now()
        return time
