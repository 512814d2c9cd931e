"""The terminal record of a work, kept for the pool's ``status_ttl``."""

from __future__ import annotations

from django.db import models

from django_workpool.choices import CompletionStatus
from django_workpool.models.base import QueueQuerySet, pool_name


class CompletedWork(models.Model):
    """How a work ended; inserted by the pass, never changed, deleted by cleanup."""

    work_id = models.UUIDField(primary_key=True)
    pool = pool_name()
    completion_status = models.CharField(
        max_length=10, choices=CompletionStatus.choices
    )
    return_value = models.TextField(null=True)  # noqa: DJ001 - None is no value
    error_type = models.CharField(max_length=255, default="")
    error = models.TextField(default="")
    traceback = models.TextField(default="")
    attempts = models.PositiveIntegerField(default=0)
    worker_id = models.UUIDField(null=True)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField()

    objects = QueueQuerySet["CompletedWork"].as_manager()

    class Meta:
        """Table and index."""

        db_table = "workpool_completed_work"
        indexes = (
            # The oldest ended works of a pool: statements.EXPIRED, POOL_AND_WORKERS.
            models.Index(
                fields=("pool", "completed_at"), name="workpool_completed_age_idx"
            ),
        )

    def __str__(self) -> str:
        """Return the work's id and the status."""
        return f"{self.work_id}: {self.completion_status}"
