"""The slots in use: one row for each work that was handed to a worker."""

from __future__ import annotations

from django.db import models

from django_workpool.models.base import QueueQuerySet, handle, pool_name


class InProgressWork(models.Model):
    """A work in a lane; inserted, flagged and deleted by the pass.

    An executor deletes only what it gives back.  Occupancy of a pool is the number
    of distinct lanes here; it is counted, never kept (protocol R11).
    """

    work_id = models.UUIDField(primary_key=True)
    pool = pool_name()
    fn_handle = handle()
    is_async = models.BooleanField(default=False)
    hand_out = models.BigIntegerField()
    attempt = models.PositiveIntegerField()
    worker_id = models.UUIDField()
    lane = models.PositiveIntegerField()
    place = models.PositiveIntegerField()
    handed_out_at = models.DateTimeField()
    cancel_requested = models.BooleanField(default=False)
    # The old place, to which a work that is given back returns (protocol R14).
    start_id = models.BigIntegerField()
    rank = models.SmallIntegerField()
    run_at = models.DateTimeField()

    objects = QueueQuerySet["InProgressWork"].as_manager()

    class Meta:
        """Table, the rule of lanes, and the index of a worker's works."""

        db_table = "workpool_in_progress_work"
        constraints = (
            # Also the index of statements.IN_PROGRESS.
            models.UniqueConstraint(
                fields=("pool", "lane", "place"), name="workpool_lane_uniq"
            ),
        )
        indexes = (
            # What a worker holds: statements.FETCH, and its used capacity.
            models.Index(fields=("worker_id",), name="workpool_progress_worker_idx"),
        )

    def __str__(self) -> str:
        """Return the work's id and its lane."""
        return f"{self.work_id} in lane {self.lane}"
