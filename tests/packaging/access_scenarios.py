"""Every operation of the table of access, in all its scenarios.

What a scenario needs is made first; only the operation itself is watched.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from django.db import connections, transaction

from django_workpool import Workpool
from django_workpool.choices import WorkerState
from django_workpool.db import clock, serial
from django_workpool.db.session import Session
from django_workpool.engine import (
    announce,
    cleanup,
    complete,
    declare,
    kick,
    loop,
    workers,
)
from django_workpool.executors.inline import InlineExecutor
from django_workpool.models import MainLoop, Pool, Worker
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.packaging.sql_access import Seen

USING: Final = "default"


def _known(**options: object) -> Workpool:
    """Return a pool whose declaration has reached its row."""
    pool = fresh("access", **options)
    pool.enqueue_action(functions.add, {"a": 0})
    drain(pool.name)
    return pool


def _declare(seen: Seen) -> None:
    pool = fresh("access", max_parallelism=1)
    with seen.watching():
        declare.declare(USING, pool.name)
        declare.declare(USING, pool.name)
    Workpool(pool.name, max_parallelism=2)
    with seen.watching():
        declare.declare(USING, pool.name)


def _update_pause(seen: Seen) -> None:
    pool = _known()
    nobody_yet = fresh("access")
    with seen.watching():
        pool.update(max_parallelism=3)
        pool.pause("a look")
        pool.resume()
        nobody_yet.update(log_level="ERROR")


def _enqueue(seen: Seen) -> None:
    pool = _known(log_level="INFO")
    with seen.watching():
        pool.enqueue_action(functions.add, {"a": 1})
        pool.enqueue_mutation_batch(functions.effect, [{}, {}])
        with transaction.atomic(using=USING):
            pool.enqueue_action(functions.async_echo, name="inside")


def _cancel(seen: Seen) -> None:
    pool = _known(max_parallelism=1)
    ended = pool.enqueue_action(functions.add, {"a": 1})
    drain(pool.name)
    running, waiting = pool.enqueue_action_batch(functions.add, [{"a": 1}, {"a": 2}])
    run_pass(pool.name)
    with seen.watching():
        answers = [pool.cancel(work) for work in (ended, running, waiting)]
        with transaction.atomic(using=USING):
            pool.cancel(waiting)
    assert [False, True, True] == answers


def _pass(seen: Seen) -> None:
    _pass_of_nobody(seen)
    _pass_over_all_phases(seen)
    _pass_with_recovery(seen)


def _pass_of_nobody(seen: Seen) -> None:
    with seen.watching():
        loop.run_pass(USING, f"nobody-{uuid4()}")


def _pass_over_all_phases(seen: Seen) -> None:
    pool = _known(max_parallelism=3)
    executor = inline_executor(USING)
    batch = [{"a": n} for n in range(4)]
    ended, flagged, late, waiting = pool.enqueue_action_batch(functions.add, batch)
    with seen.watching():
        loop.has_something_to_do(USING, pool.name)
        loop.run_pass(USING, pool.name)
    endings = {work.work_id: executor.execute(work) for work in executor.fetch()}
    executor.finish(endings[ended.pk])
    executor.finish(endings[late.pk])
    executor.finish(endings[late.pk])
    pool.cancel(flagged)
    pool.cancel(waiting)
    with seen.watching():
        loop.has_something_to_do(USING, pool.name)
        loop.run_pass(USING, pool.name)


def _pass_with_recovery(seen: Seen) -> None:
    pool = _known()
    # Nobody else is there to be given the works.
    inline_executor(USING).close()
    doomed = InlineExecutor(USING, pools=[pool.name])
    lost = pool.enqueue_action(functions.add, {"a": 1})
    pool.enqueue_action(functions.add, {"a": 2})
    restarted = pool.enqueue_mutation(functions.effect)
    loop.run_pass(USING, pool.name)
    held = {work.work_id: work.key for work in doomed.fetch()}
    workers.ended(
        USING,
        doomed.worker.pk,
        is_dead=True,
        last_exit="killed",
        begun=[held[lost.pk], held[restarted.pk]],
    )
    with seen.watching():
        passed = loop.run_pass(USING, pool.name)
    assert passed is not None
    assert (1, 2, 1) == (
        len(passed.plan.lost),
        len(passed.plan.given_back),
        len(passed.plan.restarted),
    )


def _run_work(seen: Seen) -> None:
    pool = _known()
    executor = inline_executor(USING)
    good = pool.enqueue_action(functions.add, {"a": 1})
    bad = pool.enqueue_action(functions.fail)
    written = pool.enqueue_mutation(functions.effect)
    returned = pool.enqueue_action(functions.add, {"a": 2})
    canceled = pool.enqueue_action(functions.add, {"a": 3})
    loop.run_pass(USING, pool.name)
    pool.cancel(canceled)
    with seen.watching():
        held = {work.work_id: work for work in executor.fetch()}
        for work in (good, bad, written):
            executor.finish(executor.execute(held[work.pk]))
        # The hand-out of a mutation that is over: it is rolled back.
        complete.give_back(USING, [held[returned.pk].key])
        assert complete.is_committed(USING, held[written.pk]) is True
        kick.kick(USING, pool.name)
    late = pool.enqueue_mutation(functions.effect)
    loop.run_pass(USING, pool.name)
    (assignment,) = [work for work in executor.fetch() if work.work_id == late.pk]
    complete.give_back(USING, [assignment.key])
    with seen.watching():
        assert executor.execute(assignment) is None
    _tell_of_ends_without_a_worker(seen)


def _tell_of_ends_without_a_worker(seen: Seen) -> None:
    pool = _known()
    work = pool.enqueue_action(functions.add, {"a": 1})
    pool.cancel(work)
    passed = loop.run_pass(USING, pool.name)
    assert passed is not None
    with seen.watching():
        announce.ended(USING, passed.applied.ended)


def _worker_life(seen: Seen) -> None:
    pool = _known()
    with seen.watching():
        worker = InlineExecutor(USING)
        workers.set_state(USING, worker.worker.pk, WorkerState.DRAINING)
        worker.close()
        kick.kick(USING, pool.name)
        kick.overview(USING)


def _status_result(seen: Seen) -> None:
    pool = _known(max_parallelism=1)
    ended = pool.enqueue_action(functions.add, {"a": 1})
    failed = pool.enqueue_action(functions.fail)
    drain(pool.name)
    running, waiting = pool.enqueue_action_batch(functions.add, [{"a": 1}, {"a": 2}])
    run_pass(pool.name)
    with seen.watching():
        pool.status_batch([ended, failed, running, waiting])
        pool.status(waiting)
        pool.result(ended)
        pool.result(failed)
        pool.wait(ended)


def _cleanup(seen: Seen) -> None:
    pool = _known()
    forgotten = InlineExecutor(USING)
    forgotten.close()
    rows = Worker.objects.using(USING).filter(pk=forgotten.worker.pk)
    rows.update(ended_at=clock.now(USING) - timedelta(days=1))
    before = clock.now(USING) + timedelta(days=1)
    with seen.watching():
        with serial.pass_unit(USING):
            cleanup.clean(Session(USING), pool.name, before)
        workers.forget_ended(USING)
    assert not rows.exists()


SCENARIOS: Final[dict[str, Callable[[Seen], None]]] = {
    "declare": _declare,
    "update_pause": _update_pause,
    "enqueue": _enqueue,
    "cancel": _cancel,
    "pass": _pass,
    "run_work": _run_work,
    "worker_life": _worker_life,
    "status_result": _status_result,
    "cleanup": _cleanup,
}


def first_enqueue(seen: Seen) -> None:
    """Enqueue into a pool that the database does not know."""
    pool = fresh("access", max_parallelism=1)
    with seen.watching():
        pool.enqueue_action(functions.add, {"a": 1})
    Workpool(pool.name, max_parallelism=2)
    with seen.watching():
        pool.enqueue_action(functions.add, {"a": 1})


def pass_that_cleans(seen: Seen) -> None:
    """Do all that a pass does, and one more that finds ended works past their time."""
    _pass(seen)
    pool = _known()
    pool.update(status_ttl=0)
    with seen.watching():
        loop.run_pass(USING, pool.name)


def looks(seen: Seen) -> None:
    """Explain and count, in every state of a work."""
    pool = _known(max_parallelism=1)
    ended = pool.enqueue_action(functions.add, {"a": 1})
    drain(pool.name)
    running, waiting = pool.enqueue_action_batch(functions.add, [{"a": 1}, {"a": 2}])
    run_pass(pool.name)
    with seen.watching():
        for work in (ended, running, waiting):
            pool.explain(work)
        pool.queue_length()
        pool.debug_counts()
        pool.diagnostics()
        pool.running()
    assert Pool.objects.using(USING).filter(pk=pool.name).exists()
    assert MainLoop.objects.using(USING).filter(pk=pool.name).exists()


def has_row_locks() -> bool:
    """Say whether this run's database locks rows."""
    return connections[USING].features.has_select_for_update
