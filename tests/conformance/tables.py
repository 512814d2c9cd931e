"""What stands in the tables of the queue, on both databases."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_workpool.models import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django_workpool import Workpool


def rows() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return all rows of all queue tables, by alias and model."""
    return {
        (alias, model.__name__): list(
            model._default_manager.using(alias).order_by("pk").values()
        )
        for alias in connections
        for model in apps.get_app_config("workpool").get_models()
    }


def count(model: str, alias: str = "default") -> int:
    """Return the number of rows of one table."""
    found = apps.get_model("workpool", model)
    return int(found._default_manager.using(alias).count())


@contextmanager
def nothing_written() -> Iterator[None]:
    """Fail if a row of the queue changes."""
    before = rows()
    yield
    assert before == rows()


@contextmanager
def no_query() -> Iterator[None]:
    """Fail on any statement, on any database."""
    with ExitStack() as stack:
        captured = [
            stack.enter_context(CaptureQueriesContext(connections[alias]))
            for alias in connections
        ]
        yield
    assert [] == [query["sql"] for found in captured for query in found]


def in_force(pool: Workpool) -> dict[str, Any]:
    """Return the row of a pool."""
    (row,) = Pool.objects.using("default").filter(pk=pool.name).values()
    return {**row}
