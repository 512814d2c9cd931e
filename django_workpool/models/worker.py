"""The processes that execute works, and the facts of their deaths."""

from __future__ import annotations

from django.db import models

from django_workpool.choices import WorkerState


class Worker(models.Model):
    """One worker process; written by itself and by its runner, never by a pass.

    A row is not cleaned up while an in-progress row names it (protocol R32).
    """

    id = models.UUIDField(primary_key=True)
    runner_id = models.UUIDField()
    pid = models.PositiveIntegerField()
    # JSON list of pool names; an empty list serves every pool.
    pools = models.TextField(default="[]")
    # JSON object: handle to "thread" or "coroutine", and a digest that names it, so
    # that a pass reads the long text once.
    handles = models.TextField(default="{}")
    handles_digest = models.CharField(max_length=64)
    threads = models.PositiveIntegerField()
    coroutines = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=WorkerState.choices)
    last_exit = models.CharField(max_length=255, default="", blank=True)
    # JSON list of [work id, hand-out] that had begun at the death; null means all.
    begun = models.TextField(null=True)  # noqa: DJ001 - None is no list
    marks_path = models.CharField(max_length=1024, default="", blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        """Table and index."""

        db_table = "workpool_worker"
        indexes = (
            # The living, and the recently dead: statements.POOL_AND_WORKERS, cleanup.
            models.Index(
                fields=("state", "ended_at"), name="workpool_worker_state_idx"
            ),
        )

    def __str__(self) -> str:
        """Return id and state."""
        return f"{self.id} ({self.state})"
