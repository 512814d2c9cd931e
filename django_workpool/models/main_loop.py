"""The state of a pool's main loop, and the row whose lock makes passes serial."""

from __future__ import annotations

from django.db import models

from django_workpool.choices import LoopState
from django_workpool.models.base import pool_name


class MainLoop(models.Model):
    """One per pool; written by a pass alone, a kick only reads it."""

    pool = pool_name(primary_key=True)
    state = models.CharField(
        max_length=10, choices=LoopState.choices, default=LoopState.IDLE
    )
    run_at = models.DateTimeField(null=True)
    # Starts at the database's milliseconds, so that a row made again never
    # repeats a hand-out number (protocol R10).
    generation = models.BigIntegerField()
    last_runner = models.UUIDField(null=True)
    last_pass_at = models.DateTimeField(null=True)
    last_pass_ms = models.FloatField(null=True)
    last_recovery_at = models.DateTimeField(null=True)
    saturated = models.BooleanField(default=False)
    # Since when a work could start, had a worker room for it (protocol R22).
    wants_capacity_at = models.DateTimeField(null=True)
    # What the workers knew when works of unknown functions were last released (R13).
    known_digest = models.CharField(max_length=64, default="", blank=True)

    class Meta:
        """Table and index."""

        db_table = "workpool_main_loop"
        indexes = (
            # The pools that want capacity: statements.POOL_AND_WORKERS.
            models.Index(fields=("wants_capacity_at",), name="workpool_loop_wants_idx"),
        )

    def __str__(self) -> str:
        """Return the pool's name and the state."""
        return f"{self.pool}: {self.state}"
