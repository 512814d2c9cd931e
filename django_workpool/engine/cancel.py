"""Cancel: a request in the caller's transaction, which the next pass consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_workpool.choices import WorkKind
from django_workpool.db import clock, retry, serial
from django_workpool.engine import kick
from django_workpool.engine.status import status, to_id
from django_workpool.models import PendingCancelation

if TYPE_CHECKING:
    from uuid import UUID

    from django_workpool.models import Work


def cancel(using: str, pool: str, work: Work | UUID | str) -> bool:
    """Ask that a work does not run, or not again.

    A pending work ends canceled in the next pass and never runs.  One in progress is
    flagged: it keeps its slot, and its function may look at ``cancel_requested``.

    Returns:
        True if it can still be canceled, False if it has ended.

    Raises:
        WorkNotFoundError: Unknown, of another pool, or cleaned up.
    """
    work_id = to_id(work)

    def write() -> bool:
        with serial.unit(using):
            if status(using, pool, work_id).kind == WorkKind.COMPLETED:
                return False
            PendingCancelation.objects.using(using).create(
                pool=pool,
                work_id=work_id,
                requested_at=clock.storable(clock.now(using), using),
            )
            kick.on_commit(using, pool)
            return True

    return retry.retried(write, using=using)
