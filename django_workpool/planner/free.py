"""The phases that free slots: completions, cancelations, recovery."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from django_workpool.choices import CompletionStatus, FunctionKind
from django_workpool.planner.steps import Consumed, Loss

if TYPE_CHECKING:
    from uuid import UUID

    from django_workpool.planner.snapshot import Completion, Running, Snapshot

MAX_RECOVERIES = 500
# A mutation whose process dies is started again so often, then it is lost.
MAX_RESTARTS = 3


@dataclass(slots=True)
class Draft:
    """The plan while its phases fill it."""

    snapshot: Snapshot
    running: dict[UUID, Running]
    # All that ran before the first phase.
    before: frozenset[UUID]
    completions: list[Consumed] = field(default_factory=list)
    canceled: list[tuple[int, UUID]] = field(default_factory=list)
    flagged: dict[UUID, UUID] = field(default_factory=dict)
    cancelations: list[int] = field(default_factory=list)
    lost: list[Loss] = field(default_factory=list)
    given_back: list[tuple[UUID, int]] = field(default_factory=list)
    restarted: list[UUID] = field(default_factory=list)
    skipped: set[UUID] = field(default_factory=set)

    def skips(self, work_id: UUID) -> bool:
        """Say whether *work_id* must be left to the next pass."""
        if work_id not in self.snapshot.unavailable:
            return False
        self.skipped.add(work_id)
        return True


def freed(snapshot: Snapshot) -> Draft:
    """Decide the phases that free slots, before any is given out."""
    snapshot = _in_order(snapshot)
    # Seen both in progress and pending means given back in between: it is pending.
    pending = {work.work_id for work in snapshot.due}
    running = {r.work_id: r for r in snapshot.running if r.work_id not in pending}
    draft = Draft(snapshot, running, before=frozenset(running))
    _complete(draft)
    _cancel(draft)
    _recover(draft)
    return draft


def _in_order(snapshot: Snapshot) -> Snapshot:
    """Return the same rows, sorted; sorting what is sorted already costs little."""
    return replace(
        snapshot,
        running=tuple(sorted(snapshot.running, key=lambda r: (r.lane, r.place))),
        completions=tuple(sorted(snapshot.completions, key=lambda c: c.id)),
        cancelations=tuple(sorted(snapshot.cancelations, key=lambda c: c.id)),
        due=tuple(sorted(snapshot.due, key=lambda w: (w.rank, w.run_at, w.id))),
        workers=tuple(sorted(snapshot.workers, key=lambda w: w.id)),
    )


def _complete(draft: Draft) -> None:
    """Phase 1: what ended frees its slot; late and duplicate ones are dropped."""
    for completion in draft.snapshot.completions:
        row = draft.running.get(completion.work_id)
        if row is None or row.hand_out != completion.hand_out:
            status = ""
        elif draft.skips(completion.work_id):
            continue
        else:
            status = _final_status(completion, row)
            del draft.running[completion.work_id]
        draft.completions.append(
            Consumed(completion.id, completion.work_id, completion.hand_out, status)
        )


def _final_status(completion: Completion, row: Running) -> str:
    """Success stays success; any other end of a flagged work is canceled."""
    if completion.status == CompletionStatus.SUCCESS:
        return CompletionStatus.SUCCESS.value
    if row.cancel_requested:
        return CompletionStatus.CANCELED.value
    if completion.status in CompletionStatus.values:
        return completion.status
    return CompletionStatus.ERROR.value


def _cancel(draft: Draft) -> None:
    """Phase 2: what waits is canceled now, what runs is flagged (protocol R20)."""
    ended = set()
    for request in draft.snapshot.cancelations:
        row = draft.running.get(request.work_id)
        if request.start_id is not None:
            if request.work_id not in ended:
                ended.add(request.work_id)
                draft.canceled.append((request.start_id, request.work_id))
            draft.running.pop(request.work_id, None)
        elif row is not None:
            if draft.skips(request.work_id):
                continue
            if not row.cancel_requested:
                draft.flagged[request.work_id] = row.worker_id
        draft.cancelations.append(request.id)


def _recover(draft: Draft) -> None:
    """Phase 3: works of ended workers are lost, started again, or given back."""
    workers = {worker.id: worker for worker in draft.snapshot.ended}
    for row in tuple(draft.running.values()):
        worker = workers.get(row.worker_id)
        if worker is None or draft.skips(row.work_id):
            continue
        if len(draft.lost) + len(draft.given_back) >= MAX_RECOVERIES:
            return
        begun = worker.begun is None or (row.work_id, row.hand_out) in worker.begun
        is_flagged = row.cancel_requested or row.work_id in draft.flagged
        draft.flagged.pop(row.work_id, None)
        if not is_flagged and (not begun or _is_restartable(draft, row)):
            # Its lane stays taken in this pass: the works behind it must not pass by.
            draft.given_back.append((row.work_id, row.hand_out))
            if begun:
                draft.restarted.append(row.work_id)
        else:
            status = CompletionStatus.CANCELED if is_flagged else CompletionStatus.ERROR
            draft.lost.append(
                Loss(
                    work_id=row.work_id,
                    status=status.value,
                    worker_id=row.worker_id,
                    attempt=row.attempt,
                    last_exit=worker.last_exit,
                    had_begun=begun,
                )
            )
            del draft.running[row.work_id]


def _is_restartable(draft: Draft, row: Running) -> bool:
    """Say whether what had begun may begin again: its death left no effect."""
    lost = draft.snapshot.lost.get(row.work_id)
    return (
        lost is not None
        and lost.fn_type != FunctionKind.ACTION
        and lost.deaths < MAX_RESTARTS
    )
