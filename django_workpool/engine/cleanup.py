"""Delete ended works past their pool's ``status_ttl``, a chunk in each pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import ProtectedError, RestrictedError

from django_workpool.db import statements
from django_workpool.db.dialect import to_uuid
from django_workpool.failpoints import failpoint
from django_workpool.models import Work

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from django_workpool.db.session import Session

MAX_EXPIRED = 200


def clean(session: Session, pool: str, before: datetime) -> int:
    """Delete a chunk of works that ended before *before*; return how many went."""
    rows = session.rows(statements.EXPIRED, pool=pool, before=before, limit=MAX_EXPIRED)
    ids = [to_uuid(row[0]) for row in rows]
    failpoint("cleanup.mid")
    if _is_pointed_at():
        ids = _without_protected(session.using, ids)
    session.write_rows(statements.DELETE_EXPIRED, [(work_id,) for work_id in ids])
    return len(ids)


def _is_pointed_at() -> bool:
    """Say whether models of the project have a key to ``Work``."""
    fields = Work._meta.get_fields(include_hidden=True)
    return any(field.auto_created and not field.concrete for field in fields)


def _without_protected(using: str, ids: list[UUID]) -> list[UUID]:
    """Delete works as the models that point to them want it; return those that went.

    What one of them protects stays, with its record, and does not keep the others.
    """
    if _delete(using, ids):
        return ids
    return [work_id for work_id in ids if _delete(using, [work_id])]


def _delete(using: str, ids: list[UUID]) -> bool:
    try:
        with transaction.atomic(using=using):
            Work.objects.using(using).filter(pk__in=ids).delete()
    except (ProtectedError, RestrictedError):
        return False
    return True
