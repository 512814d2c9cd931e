"""What the page shows about each pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS

from demo.workpools import LIMITS, POOLS
from django_workpool.models import Work

if TYPE_CHECKING:
    from django_workpool import Workpool

LATEST = 8


def pools() -> list[dict[str, Any]]:
    """Describe every pool: its limit, its counts and its latest works."""
    return [_describe(pool) for pool in POOLS]


def _describe(pool: Workpool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "limit": LIMITS[pool.name],
        "counts": pool.debug_counts(),
        "works": _latest_works(pool),
    }


def _latest_works(pool: Workpool) -> list[dict[str, Any]]:
    works = Work.objects.using(DEFAULT_DB_ALIAS).for_pool(pool.name).with_status()
    columns = ("id", "fn_name", "enqueued_at", "kind", "completion_status")
    latest = works.order_by("-enqueued_at").values(*columns)[:LATEST]
    return [
        {
            "id": str(work["id"]),
            "function": work["fn_name"],
            "status": work["completion_status"] or work["kind"],
            "enqueued_at": work["enqueued_at"],
        }
        for work in latest
    ]
