"""One enqueued call, from enqueue until cleanup."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import Case, Exists, F, OuterRef, Subquery, Value, When
from django.db.models.functions import Now

from django_workpool.choices import FunctionKind, WorkKind
from django_workpool.models.base import QueueQuerySet, handle, pool_name
from django_workpool.models.completed import CompletedWork
from django_workpool.models.in_progress import InProgressWork
from django_workpool.models.pending import PendingStart


def _rows(model: type[models.Model]) -> models.QuerySet[models.Model]:
    return model._default_manager.filter(work_id=OuterRef("pk"))


class WorkQuerySet(QueueQuerySet["Work"]):
    """Works by where they are; one work is in exactly one of these places."""

    def due(self) -> Self:
        """Keep the works that may start as soon as a slot is free."""
        return self.filter(Exists(_rows(PendingStart)))

    def scheduled(self) -> Self:
        """Keep the works that wait for their time."""
        return self.filter(Exists(_rows(PendingStart).filter(run_at__gt=Now())))

    def in_progress(self) -> Self:
        """Keep the works that were handed to a worker and have not ended."""
        return self.filter(Exists(_rows(InProgressWork)))

    def completed(self, status: str | None = None) -> Self:
        """Keep the ended works, or only those that ended as *status*.

        Args:
            status: ``success``, ``error``, ``canceled`` or ``timeout``; ``None`` for
            all.
        """
        rows = _rows(CompletedWork)
        if status is not None:
            rows = rows.filter(completion_status=status)
        return self.filter(Exists(rows))

    def with_status(self) -> Self:
        """Annotate ``kind``, ``completion_status`` and ``previous_attempts``.

        One query for a whole list.  ``kind`` is a value of ``WorkKind``,
        ``completion_status`` is ``None`` before the end, ``previous_attempts``
        counts the attempts before the current or the last one.
        """
        ended = Subquery(_rows(CompletedWork).values("completion_status")[:1])
        last = Subquery(_rows(CompletedWork).values("attempts")[:1])
        return self.annotate(
            completion_status=ended,
            kind=Case(
                When(completion_status__isnull=False, then=Value(WorkKind.COMPLETED)),
                When(Exists(_rows(InProgressWork)), then=Value(WorkKind.IN_PROGRESS)),
                default=Value(WorkKind.PENDING),
            ),
            previous_attempts=Case(
                When(completion_status__isnull=True, then=F("attempts")),
                When(Exists(_rows(CompletedWork).filter(attempts=0)), then=Value(0)),
                default=last - 1,
                output_field=models.IntegerField(),
            ),
        )


class Work(models.Model):
    """One enqueued call; inserted by enqueue, deleted by cleanup."""

    id = models.UUIDField(primary_key=True, editable=False)
    pool = pool_name()
    fn_type = models.CharField(max_length=10, choices=FunctionKind.choices)
    fn_handle = handle()
    fn_name = models.CharField(max_length=255)
    # Text, not a JSON column: databases rewrite numbers and keys (protocol R15).
    fn_args = models.TextField()
    attempts = models.PositiveIntegerField(default=0)
    # Restarts of a mutation whose process died (protocol R14).
    deaths = models.PositiveSmallIntegerField(default=0)
    enqueued_at = models.DateTimeField()

    objects = WorkQuerySet.as_manager()

    class Meta:
        """Table; the key alone, for no hot query asks for anything else."""

        db_table = "workpool_work"

    def __str__(self) -> str:
        """Return name and id."""
        return f"{self.fn_name} ({self.pk})"
