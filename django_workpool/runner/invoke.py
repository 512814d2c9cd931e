"""Run one function and say how it ended.

Here user code is called, and here alone whatever it raises is caught.
"""

from __future__ import annotations

import contextvars
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from django_workpool import arguments, logs, registry
from django_workpool.choices import CompletionStatus, FunctionKind
from django_workpool.db import retry, serial
from django_workpool.engine import announce, complete
from django_workpool.engine.complete import Assignment, Ending
from django_workpool.engine.current import CurrentWork
from django_workpool.engine.current import running as current
from django_workpool.exceptions import InvalidArgumentsError
from django_workpool.failpoints import failpoint
from django_workpool.runner import failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

_NOT_ITS_OWN = (
    "The function left its transaction open, closed or exchanged: nothing was written."
)
# Re-runs of a mutation after a conflict, within one attempt.
MAX_CONFLICTS = 10


class _FencedOutError(Exception):
    """The hand-out is over: the mutation must leave nothing."""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One hand-out about to run, and what its worker lends it."""

    using: str
    worker_id: UUID
    assignment: Assignment
    now: Callable[[], datetime]
    is_canceled: Callable[[], bool]
    mark: Callable[[], None] = lambda: None
    """Called as the last thing before the body, at each of its runs (R21)."""

    def current(self) -> CurrentWork:
        """Return what ``current_work()`` gives inside the function."""
        return CurrentWork(
            work_id=self.assignment.work_id,
            attempt=self.assignment.attempt,
            pool=self.assignment.pool,
            is_canceled=self.is_canceled,
        )

    def succeeded(self, text: str, started_at: datetime, **more: Any) -> Ending:
        """Return the ending of a function that returned *text*."""
        return Ending(
            assignment=self.assignment,
            worker_id=self.worker_id,
            status=CompletionStatus.SUCCESS.value,
            started_at=started_at,
            finished_at=max(started_at, self.now()),
            return_value=text,
            **more,
        )

    def failed(self, error: BaseException, started_at: datetime) -> Ending:
        """Return the ending of a function that raised *error*, and log it."""
        ending = Ending(
            assignment=self.assignment,
            worker_id=self.worker_id,
            status=CompletionStatus.ERROR.value,
            started_at=started_at,
            finished_at=max(started_at, self.now()),
            error_type=failure.type_name(error),
            error=failure.message(error),
            traceback=failure.trace(error),
        )
        failure.log(self.assignment, error)
        return ending

    def tell_started(self, started_at: datetime) -> None:
        """Send the event and the signal of the begin."""
        assignment = self.assignment
        announce.started(
            work_id=assignment.work_id,
            pool=assignment.pool,
            fn_name=assignment.fn_name,
            attempt=assignment.attempt,
            enqueued_at=assignment.enqueued_at,
            run_at=assignment.run_at,
            started_at=started_at,
            level=assignment.level,
        )


def _encoded(value: object) -> str:
    """Return a result as it is stored.

    Raises:
        InvalidArgumentsError: It cannot be stored; says that the function did run.
    """
    try:
        return arguments.encode(value, root="result")
    except InvalidArgumentsError as error:
        advice = f"The function ran, but this cannot be stored. {error.advice}"
        raise InvalidArgumentsError(error.path, error.found, advice) from None


def _prepared(
    assignment: Assignment,
) -> tuple[registry.Function, list[Any], dict[str, Any]]:
    """Return function and arguments; nothing is imported by a stored name."""
    if assignment.fn_args is None:
        msg = f"The row of work {assignment.work_id} is gone."
        raise LookupError(msg)
    function = registry.resolve(assignment.fn_handle)
    args, kwargs = arguments.decode_arguments(assignment.fn_args)
    return function, args, kwargs


def invoke(invocation: Invocation) -> Ending | None:
    """Run a sync function in this thread.

    Returns:
        Its ending, or ``None`` if the hand-out was over before a mutation could commit:
        then nothing of it remains, and nothing is to be reported.
    """
    # A context of its own: language, time zone and the like end with the function.
    return contextvars.copy_context().run(_invoke, invocation)


def _invoke(invocation: Invocation) -> Ending | None:
    started_at = invocation.now()
    current.set(invocation.current())
    try:
        function, args, kwargs = _prepared(invocation.assignment)
        invocation.tell_started(started_at)
        if function.kind == FunctionKind.MUTATION:
            return _mutate(invocation, function, args, kwargs, started_at)
        invocation.mark()
        text = _encoded(function.fn(*args, **kwargs))
        failpoint("run.after_body")
        return invocation.succeeded(text, started_at)
    except _FencedOutError:
        logs.tell(
            logs.runner,
            logging.WARNING,
            invocation.assignment.level,
            "A mutation was rolled back, for its hand-out is over",
            workId=str(invocation.assignment.work_id),
        )
        return None
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        return invocation.failed(error, started_at)


def _mutate(
    invocation: Invocation,
    function: registry.Function,
    args: list[Any],
    kwargs: dict[str, Any],
    started_at: datetime,
) -> Ending:
    """Run body, fence and completion in one transaction; again after a conflict."""
    waits = retry.waits()
    for run in range(MAX_CONFLICTS + 1):
        committed: list[Ending] = []
        try:
            return _transact(invocation, function, args, kwargs, started_at, committed)
        except _FencedOutError:
            raise
        except BaseException as error:
            if committed:
                # A hook of the function's own raised after the commit.
                logs.runner.exception("An on_commit hook of a mutation raised")
                return committed[0]
            if run == MAX_CONFLICTS or not retry.is_transient(error):
                raise
            if retry.is_connection_loss(error) and _has_committed(invocation):
                return invocation.succeeded("null", started_at, is_committed=True)
            retry.pause(next(waits))
    raise AssertionError  # pragma: no cover - the last run returns or raises


def _transact(
    invocation: Invocation,
    function: registry.Function,
    args: list[Any],
    kwargs: dict[str, Any],
    started_at: datetime,
    committed: list[Ending],
) -> Ending:
    using = invocation.using
    # Inside a transaction of a test's own nothing is committed, and no hook runs.
    owns = not connections[using].in_atomic_block
    with serial.unit(using, is_ours=False):
        # Registered first, so that it runs first: from here on the outcome stands.
        transaction.on_commit(lambda: committed.append(ending), using=using)
        connection = connections[using]
        invocation.mark()
        failpoint("mutation.before_body")
        text = _encoded(function.fn(*args, **kwargs))
        failpoint("run.after_body")
        if connections[using] is not connection or not connection.in_atomic_block:
            # Nobody else would: an exchanged one holds its locks for ever.
            connection.close()
            raise transaction.TransactionManagementError(_NOT_ITS_OWN)
        ending = invocation.succeeded(text, started_at, is_committed=True)
        if not complete.fence(
            using,
            invocation.assignment,
            return_value=text,
            started_at=started_at,
            finished_at=ending.finished_at,
        ):
            raise _FencedOutError
        failpoint("mutation.before_commit")
    if owns and not committed:
        # An inner atomic() that was entered and not left has taken our exit.
        raise transaction.TransactionManagementError(_NOT_ITS_OWN)
    failpoint("mutation.after_commit")
    return ending


def _has_committed(invocation: Invocation) -> bool:
    """Ask the database what became of a COMMIT whose reply was lost."""
    retry.forget_broken(invocation.using)
    found = complete.is_committed(invocation.using, invocation.assignment)
    if found is None:
        raise _FencedOutError
    return found


async def invoke_async(invocation: Invocation) -> Ending:
    """Run an ``async def`` function on this event loop; other works go on meanwhile."""
    started_at = invocation.now()
    current.set(invocation.current())
    try:
        function, args, kwargs = _prepared(invocation.assignment)
        await _tell(invocation, started_at)
        invocation.mark()
        text = _encoded(await function.fn(*args, **kwargs))
        failpoint("run.after_body")
        return invocation.succeeded(text, started_at)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        return invocation.failed(error, started_at)


async def _tell(invocation: Invocation, started_at: datetime) -> None:
    """Tell of the begin without blocking the loop by a receiver."""
    if announce.has_receivers():
        await sync_to_async(invocation.tell_started)(started_at)
    else:
        invocation.tell_started(started_at)
