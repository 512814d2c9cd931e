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
    saturated = models.BooleanField(default=False)

    class Meta:
        """Table."""

        db_table = "workpool_main_loop"

    def __str__(self) -> str:
        """Return the pool's name and the state."""
        return f"{self.pool}: {self.state}"
