"""The processes of the runners, and the facts of their deaths."""

from __future__ import annotations

from django.db import models

from django_workpool.choices import WorkerKind, WorkerState


class Worker(models.Model):
    """One runner or worker process; written by itself, and at its end by its prover.

    A pass only reads it.  A row is not cleaned up while an in-progress row names it
    (protocol R32).
    """

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(
        max_length=10, choices=WorkerKind.choices, default=WorkerKind.WORKER
    )
    # A runner's own id in its own row.
    runner_id = models.UUIDField()
    # Which process this is: a machine, its boot, a table of pids there, a pid, and when
    # that process started, in the kernel's own numbers (protocol R29).
    machine_id = models.CharField(max_length=64, default="", blank=True)
    boot_id = models.CharField(max_length=64, default="", blank=True)
    pid_namespace = models.BigIntegerField(default=0)
    pid = models.PositiveIntegerField()
    process_start = models.BigIntegerField(default=0)
    # The kernel holds a lock on this file for as long as the process lives.
    lock_path = models.CharField(max_length=1024, default="", blank=True)
    # JSON list of pool names; an empty list serves every pool.
    pools = models.TextField(default="[]")
    # JSON object: handle to "thread" or "coroutine", and a digest that names it, so
    # that a pass reads the long text once.
    handles = models.TextField(default="{}")
    handles_digest = models.CharField(max_length=64, default="", blank=True)
    threads = models.PositiveIntegerField(default=0)
    coroutines = models.PositiveIntegerField(default=0)
    # Of a runner: it has been killed by its kernel timer once this stands still for
    # the limit; null means that silence proves nothing (protocol R28).
    heartbeat_at = models.DateTimeField(null=True)
    silence_limit = models.DurationField(null=True)
    # Resident memory in bytes, as it was at the last word.
    rss = models.BigIntegerField(null=True)
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
            # The workers of a runner whose death is to be written.
            models.Index(fields=("runner_id",), name="workpool_worker_runner_idx"),
        )

    def __str__(self) -> str:
        """Return id and state."""
        return f"{self.id} ({self.state})"
