"""What a statement does to which of our tables, read from its text."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.db import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFIX: Final = "workpool_"
ORDER: Final = "LRIUD"
TABLES: Final = sorted(
    (
        model._meta.db_table.removeprefix(PREFIX)
        for model in apps.get_app_config("workpool").get_models()
    ),
    key=len,
    reverse=True,
)
_VERBS: Final = {
    "INSERT INTO": "I",
    "INSERT OR IGNORE INTO": "I",
    "UPDATE": "U",
    "DELETE FROM": "D",
    "FROM": "R",
    "JOIN": "R",
    "USING": "R",
}
# Longer words first: DELETE FROM is no FROM.
_WORDS: Final = "|".join(sorted(_VERBS, key=len, reverse=True))
_MENTION: Final = re.compile(
    rf'(?:\b(?P<word>{_WORDS})\s+)?"?\b{PREFIX}(?P<table>{"|".join(TABLES)})\b"?'
    r"(?P<is_qualifier>\.)?"
)
_LOCK: Final = re.compile(r"\bFOR UPDATE\b")


def access_of(sql: str) -> dict[str, set[str]]:
    """Return the verbs of one statement, by table.

    Raises:
        ValueError: It names a table in a place that this reader does not know.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for mention in _MENTION.finditer(sql):
        if mention["word"]:
            found[mention["table"]].add(_VERBS[mention["word"]])
        elif not mention["is_qualifier"]:
            msg = f"What does this do to {mention['table']}? {sql}"
            raise ValueError(msg)
    if _LOCK.search(sql):
        for verbs in found.values():
            verbs.update("L" if "R" in verbs else "")
    return dict(found)


class Seen:
    """The verbs of all statements that were watched."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._verbs: dict[str, set[str]] = defaultdict(set)

    @contextmanager
    def watching(self, using: str = "default") -> Iterator[None]:
        """Watch the statements of this thread on *using*."""
        with connections[using].execute_wrapper(self._watch):
            yield

    def _watch(
        self,
        execute: Callable[..., Any],
        sql: str,
        params: Any,
        many: bool,
        context: dict[str, Any],
    ) -> Any:
        for table, verbs in access_of(sql).items():
            self._verbs[table] |= verbs
        return execute(sql, params, many, context)

    @property
    def access(self) -> dict[str, str]:
        """What was seen, as the table of access has it."""
        return {
            table: "".join(sorted(verbs, key=ORDER.index))
            for table, verbs in self._verbs.items()
        }
