"""The handle that people hold: ``Workpool(name, …)``.

Cheap and made at module level: it imports no model and makes no query until it is used.
"""

from __future__ import annotations

from django_workpool.client.pool import Workpool

__all__ = ["Workpool"]
