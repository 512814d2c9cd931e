"""The pools of the conformance tests; a fresh name for each test."""

from __future__ import annotations

import itertools
from typing import Any

from django_workpool import Workpool

_numbers = itertools.count(1)


def fresh(name: str = "pool", **options: Any) -> Workpool:
    """Return a pool that no other test uses, so that nothing declared leaks."""
    return Workpool(f"{name}-{next(_numbers)}", **options)
