"""The functions that pools may call, and the way from name to function and back.

A decorator registers; enqueue asks ``handle_of``, a worker asks ``resolve``.  Neither
imports anything, so a stored name can never load or call what nobody registered.
"""

from __future__ import annotations

from django_workpool.registry.functions import (
    Function,
    action,
    autodiscover,
    handle_of,
    handles_digest,
    known_handles,
    mutation,
    query,
    resolve,
)
from django_workpool.registry.signature import check_signature

__all__ = [
    "Function",
    "action",
    "autodiscover",
    "check_signature",
    "handle_of",
    "handles_digest",
    "known_handles",
    "mutation",
    "query",
    "resolve",
]
