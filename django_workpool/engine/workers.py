"""The life of worker processes as rows: registered, draining, proven dead."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef

from django_workpool import registry
from django_workpool.choices import WorkerState
from django_workpool.db import clock, retry
from django_workpool.models import InProgressWork, Worker

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from django_workpool.engine.complete import Key

# How long the row of an ended worker stays, for people.
KEPT = timedelta(hours=1)


def register(using: str, row: Worker) -> None:
    """Insert the row of a worker: from here on passes give it works."""
    handles = registry.known_handles()
    row.handles = json.dumps(handles)
    row.handles_digest = registry.handles_digest(handles)
    row.state = WorkerState.READY
    row.started_at = clock.storable(clock.now(using), using)
    retry.retried(lambda: row.save(using=using, force_insert=True), using=using)


def is_registered(using: str, worker_id: UUID) -> bool:
    """Say whether the row of a worker is there."""
    return Worker.objects.using(using).filter(pk=worker_id).exists()


def set_state(using: str, worker_id: UUID, state: WorkerState) -> None:
    """Write a state of a living worker."""
    rows = Worker.objects.using(using).filter(pk=worker_id)
    retry.retried(lambda: rows.update(state=state), using=using)


def ended(
    using: str,
    worker_id: UUID,
    *,
    is_dead: bool,
    last_exit: str,
    begun: Iterable[Key] | None,
) -> None:
    """Write the fact that a worker is gone, once, and what had begun (R29).

    Args:
        using: The alias.
        worker_id: The worker.
        is_dead: It died, against a clean stop.
        last_exit: How, in words.
        begun: What had begun and has no committed completion; ``None`` for all.
    """
    known = None if begun is None else json.dumps([[k.hex, n] for k, n in begun])
    rows = Worker.objects.using(using).filter(pk=worker_id, ended_at=None)
    state = WorkerState.DEAD if is_dead else WorkerState.STOPPED
    now = clock.storable(clock.now(using), using)
    retry.retried(
        lambda: rows.update(
            state=state, last_exit=last_exit[:255], begun=known, ended_at=now
        ),
        using=using,
    )


def forget_ended(using: str) -> None:
    """Delete rows of workers that ended long ago and that no work names (R32)."""
    names = InProgressWork.objects.using(using).filter(worker_id=OuterRef("pk"))
    old = Worker.objects.using(using).filter(
        ~Exists(names),
        state__in=(WorkerState.DEAD, WorkerState.STOPPED),
        ended_at__lt=clock.storable(clock.now(using) - KEPT, using),
    )
    retry.retried(old.delete, using=using)
