"""Ask the predicates of the pass for all their answers about one work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_workpool.planner.admission import PREDICATES
from django_workpool.planner.free import freed
from django_workpool.planner.plan import admission_for

if TYPE_CHECKING:
    from datetime import datetime

    from django_workpool.planner.snapshot import Due, Snapshot


def explained(
    snapshot: Snapshot, now: datetime, work: Due
) -> list[tuple[str, bool, dict[str, object]]]:
    """Ask every predicate about *work*, as it stands when its turn comes.

    The works before it are given their slots first, so that all predicates pass
    exactly when the next pass starts it.
    """
    draft = freed(snapshot)
    admission = admission_for(draft, now)
    for other in draft.snapshot.due:
        if other.work_id == work.work_id:
            break
        if admission.failing(other) is None:
            admission.give(other)
    else:
        # Not within what the next pass reads: no slot is left for it there.
        admission.is_closed = True
    return [
        (item.name, item.passes(work, admission), item.details(work, admission))
        for item in PREDICATES
    ]
