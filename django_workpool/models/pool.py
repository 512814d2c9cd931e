"""The options of a pool: what code declared, and what an operator set over it."""

from __future__ import annotations

from datetime import timedelta

from django.db import models

from django_workpool.choices import LogLevel
from django_workpool.models.base import MAX_PARALLELISM_LIMIT, pool_name

DEFAULT_MAX_PARALLELISM = 10
DEFAULT_STATUS_TTL = timedelta(days=1)
DEFAULT_LOG_LEVEL = LogLevel.WARNING


class Pool(models.Model):
    """One pool; written by the declaration sync, ``update``, ``pause`` and a pass."""

    name = pool_name(primary_key=True)
    max_parallelism = models.PositiveIntegerField(default=DEFAULT_MAX_PARALLELISM)
    status_ttl = models.DurationField(
        null=True, default=DEFAULT_STATUS_TTL, help_text="Empty keeps for ever."
    )
    log_level = models.CharField(
        max_length=10, choices=LogLevel.choices, default=DEFAULT_LOG_LEVEL
    )
    executor = models.CharField(max_length=63, default="local")
    # Text in our own codec, which keeps a timedelta a timedelta (protocol R15).
    overrides = models.TextField(default="{}", blank=True)
    paused = models.BooleanField(default=False)
    paused_reason = models.CharField(max_length=500, default="", blank=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        """Table and limits."""

        db_table = "workpool_pool"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(max_parallelism__lte=MAX_PARALLELISM_LIMIT),
                name="workpool_pool_limit_chk",
            ),
        )

    def __str__(self) -> str:
        """Return the name."""
        return self.name
