"""The tables of the queue; reading them is public, writing them is not."""

from __future__ import annotations

from django_workpool.models.completed import CompletedWork
from django_workpool.models.in_progress import InProgressWork
from django_workpool.models.main_loop import MainLoop
from django_workpool.models.pending import (
    PendingCancelation,
    PendingCompletion,
    PendingStart,
)
from django_workpool.models.pool import Pool
from django_workpool.models.work import Work
from django_workpool.models.worker import Worker

__all__ = [
    "CompletedWork",
    "InProgressWork",
    "MainLoop",
    "PendingCancelation",
    "PendingCompletion",
    "PendingStart",
    "Pool",
    "Work",
    "Worker",
]
