"""Say why a work does not run: the predicates of the pass, asked for all answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.db.models import Q

from django_workpool.choices import WorkKind
from django_workpool.db import clock
from django_workpool.db.session import Session
from django_workpool.engine import declare
from django_workpool.engine.load import load
from django_workpool.engine.pool_rows import PoolMissingError
from django_workpool.engine.status import status, to_id
from django_workpool.models import InProgressWork, MainLoop, PendingStart
from django_workpool.planner.explain import explained
from django_workpool.planner.snapshot import Due

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from django_workpool.models import Work

# Positions behind this one are not counted further: it would read the whole queue.
LAST_POSITION = 10_000


@dataclass(frozen=True, slots=True)
class Check:
    """One predicate's answer, with the numbers or the reason behind it."""

    name: str
    passed: bool
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a work is where it is.

    ``predicates`` is empty unless the work is pending.  If all of them passed the next
    pass starts it.  ``position`` is 1 for the next in order, at most 10 000.
    ``worker_id`` says who holds a work in progress.
    """

    work_id: UUID
    kind: str
    predicates: tuple[Check, ...] = ()
    position: int | None = None
    worker_id: UUID | None = None
    completion_status: str | None = None

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the predicates that hold the work back."""
        return tuple(check.name for check in self.predicates if not check.passed)


def explain(using: str, pool: str, work: Work | UUID | str) -> Explanation:
    """Explain one work; reads everything, locks and writes nothing.

    Raises:
        WorkNotFoundError: Unknown, of another pool, or cleaned up.
    """
    work_id = to_id(work)
    found = status(using, pool, work_id)
    row = PendingStart.objects.using(using).filter(work_id=work_id).first()
    if found.kind == WorkKind.PENDING and row is not None:
        return _pending(using, pool, row)
    holder = InProgressWork.objects.using(using).filter(pk=work_id).first()
    return Explanation(
        work_id=work_id,
        kind=found.kind,
        worker_id=None if holder is None else holder.worker_id,
        completion_status=found.completion_status,
    )


def _pending(using: str, pool: str, row: PendingStart) -> Explanation:
    loop = MainLoop.objects.using(using).filter(pk=pool).first()
    generation = 0 if loop is None else loop.generation
    try:
        snapshot, now = load(Session(using), pool, generation, is_locked=False)
    except PoolMissingError:
        # As the next pass will do.
        declare.insert_missing(using, pool)
        snapshot, now = load(Session(using), pool, generation, is_locked=False)
    due = Due(
        row.pk, row.work_id, row.fn_handle, row.rank, clock.as_utc(row.run_at, using)
    )
    before = PendingStart.objects.using(using).for_pool(pool).filter(held="")
    ahead = before.filter(
        Q(rank__lt=row.rank)
        | Q(rank=row.rank, run_at__lt=row.run_at)
        | Q(rank=row.rank, run_at=row.run_at, pk__lt=row.pk)
    )
    checks = explained(snapshot, max(now, due.run_at), due)
    return Explanation(
        work_id=row.work_id,
        kind=WorkKind.PENDING.value,
        predicates=tuple(Check(*check) for check in checks),
        position=1 + ahead[: LAST_POSITION - 1].count(),
    )
