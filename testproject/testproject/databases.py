"""Database settings from URLs."""

from __future__ import annotations

from typing import Any, cast

import environ


def database(url: str) -> dict[str, Any]:
    """Return the entry of ``DATABASES`` for a URL.

    SQLite gets what a queue needs: write-ahead logging, so that readers and the
    writer do not block each other, and transactions that take the write lock at
    their start, so that none fails in the middle.
    """
    config = cast("dict[str, Any]", environ.Env.db_url_config(url))
    if config["ENGINE"] == "django.db.backends.sqlite3":
        config.setdefault("OPTIONS", {}).update(
            init_command="PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            timeout=20,
            transaction_mode="IMMEDIATE",
        )
    return config
