"""What waits for the next pass: starts, completions, cancelations."""

from __future__ import annotations

from django.db import models

from django_workpool.choices import CompletionStatus
from django_workpool.models.base import QueueQuerySet, handle, pool_name


class PendingStart(models.Model):
    """A due work that waits for a slot; a narrow row, first in first out by its id."""

    work_id = models.UUIDField(unique=True)
    pool = pool_name()
    fn_handle = handle()
    # -priority, ascending: MariaDB 10.6 ignores DESC in an index (protocol R12).
    rank = models.SmallIntegerField(default=0)
    run_at = models.DateTimeField()
    held = models.CharField(max_length=32, default="", blank=True)

    objects = QueueQuerySet["PendingStart"].as_manager()

    class Meta:
        """Table and the index of the head of the queue."""

        db_table = "workpool_pending_start"
        indexes = (
            # The head: statements.DUE_HEAD, in exactly this order.
            models.Index(
                fields=("pool", "held", "rank", "run_at", "id"),
                name="workpool_start_head_idx",
            ),
        )

    def __str__(self) -> str:
        """Return the work's id."""
        return str(self.work_id)


class PendingCompletion(models.Model):
    """How an attempt ended; inserted by an executor, consumed by a pass.

    No unique key: an open rival transaction would block the insert, so the pass
    removes duplicates (protocol R9).
    """

    pool = pool_name()
    work_id = models.UUIDField()
    hand_out = models.BigIntegerField()
    status = models.CharField(max_length=10, choices=CompletionStatus.choices)
    return_value = models.TextField(null=True)  # noqa: DJ001 - None is no value
    error_type = models.CharField(max_length=255, default="")
    error = models.TextField(default="")
    traceback = models.TextField(default="")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField()
    worker_id = models.UUIDField(null=True)

    objects = QueueQuerySet["PendingCompletion"].as_manager()

    class Meta:
        """Table and indexes."""

        db_table = "workpool_pending_completion"
        indexes = (
            # The oldest completions of a pool: statements.COMPLETIONS.
            models.Index(fields=("pool", "id"), name="workpool_completion_pool_idx"),
            # Is there one of this work? statements.COMPLETIONS_OF and READ_BACK.
            models.Index(fields=("work_id",), name="workpool_completion_work_idx"),
        )

    def __str__(self) -> str:
        """Return the work's id and the status."""
        return f"{self.work_id}: {self.status}"


class PendingCancelation(models.Model):
    """A request to cancel a work; deleted when it took effect (protocol R20)."""

    pool = pool_name()
    work_id = models.UUIDField()
    requested_at = models.DateTimeField()

    objects = QueueQuerySet["PendingCancelation"].as_manager()

    class Meta:
        """Table and indexes."""

        db_table = "workpool_pending_cancelation"
        indexes = (
            # The oldest requests of a pool: statements.CANCELATIONS.
            models.Index(fields=("pool", "id"), name="workpool_cancel_pool_idx"),
            # Was this work canceled? statements.FETCH.
            models.Index(fields=("work_id",), name="workpool_cancel_work_idx"),
        )

    def __str__(self) -> str:
        """Return the work's id."""
        return str(self.work_id)
