"""Enqueue: rows in the caller's transaction, a kick after its commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from django.db import connections

from django_workpool import arguments, registry
from django_workpool.choices import FunctionKind
from django_workpool.compat import uuid7
from django_workpool.db import clock, executor_statements, retry, serial
from django_workpool.db.dialect import to_time
from django_workpool.db.session import Session
from django_workpool.engine import kick
from django_workpool.exceptions import InvalidArgumentsError, InvalidOptionError
from django_workpool.failpoints import failpoint
from django_workpool.models import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


CHUNK_ROWS = 1_000
CHUNK_BYTES = 4_000_000
NAME_LENGTH = 255


def enqueue_one(
    using: str,
    pool: str,
    kind: FunctionKind,
    fn: object,
    args: object,
    given: Mapping[str, object],
) -> Work:
    """Insert one work."""
    function, label = _checked(kind, fn, given)
    text = arguments.encode_arguments(function, args)
    (work,) = _write(using, pool, function, label, [text])
    return work


def enqueue(
    using: str,
    pool: str,
    kind: FunctionKind,
    fn: object,
    batch: object,
    given: Mapping[str, object],
) -> list[Work]:
    """Insert one work for each element of *batch*; all or nothing.

    Everything is checked before the first row is written, so that a refused batch
    writes nothing.
    """
    function, label = _checked(kind, fn, given)
    texts = _encoded(function, batch)
    return _write(using, pool, function, label, texts) if texts else []


def _checked(
    kind: FunctionKind, fn: object, given: Mapping[str, object]
) -> tuple[registry.Function, str]:
    function = registry.handle_of(fn)
    if function.kind != kind:
        raise wrong_kind(function, kind)
    return function, _label(given) or function.label


def _write(
    using: str, pool: str, function: registry.Function, label: str, texts: list[str]
) -> list[Work]:
    works = [
        Work(
            id=uuid7(),
            pool=pool,
            fn_type=function.kind.value,
            fn_handle=function.handle,
            fn_name=label,
            fn_args=text,
        )
        for text in texts
    ]

    tries = 0

    def write() -> None:
        nonlocal tries
        tries += 1
        if tries > 1 and _is_there(using, works):
            # The reply of a COMMIT was lost, not the works: all or nothing.
            kick.on_commit(using, pool, works)
            return
        with serial.unit(using):
            failpoint("enqueue.before_insert")
            _insert(using, works)
            failpoint("enqueue.after_insert")
            kick.on_commit(using, pool, works)

    if not connections[using].in_atomic_block:
        # Before the works, so that no pass starts them under another limit.
        kick.sync(using, pool)
    retry.retried(write, using=using)
    return works


def _is_there(using: str, works: Sequence[Work]) -> bool:
    return Work.objects.using(using).filter(pk=works[0].pk).exists()


def wrong_kind(function: registry.Function, kind: FunctionKind) -> InvalidOptionError:
    """Return the error of a function that another method enqueues."""
    advice = f"It is registered as {function.kind.value}, not as {kind.value}"
    if function.kind == FunctionKind.QUERY:
        advice = f"{advice}; enqueue_query comes with a later release."
    else:
        advice = f"{advice}: enqueue it by enqueue_{function.kind.value}."
    return InvalidOptionError("fn", function.handle, advice)


def _encoded(function: registry.Function, batch: object) -> list[str]:
    """Return the stored arguments of each call, all of them checked."""
    if not isinstance(batch, Iterable) or isinstance(batch, str | bytes | Mapping):
        advice = "Pass a series of mappings of keyword arguments."
        raise InvalidArgumentsError("batch", type(batch).__name__, advice)
    texts = []
    for number, args in enumerate(batch):
        try:
            texts.append(arguments.encode_arguments(function, args))
        except InvalidArgumentsError as error:
            path = f"batch[{number}]{error.path.removeprefix('args')}"
            raise InvalidArgumentsError(path, error.found, error.advice) from error
    return texts


def _label(given: Mapping[str, object]) -> str | None:
    """Return the option ``name``; refuse every other option."""
    for option in given:
        if option != "name":
            advice = (
                "The options are: name. Arguments of the function go into one mapping:"
                f" enqueue_…(fn, {{{option!r}: …}})."
            )
            raise InvalidOptionError("option", option, advice)
    name = given.get("name")
    if name is None:
        return None
    if (
        not isinstance(name, str)
        or not 1 <= len(name) <= NAME_LENGTH
        or not name.isprintable()
    ):
        advice = f"Give a printable text of 1 to {NAME_LENGTH} characters."
        raise InvalidOptionError("name", name, advice)
    return name


def _insert(using: str, works: Sequence[Work]) -> None:
    session = Session(using)
    first = works[0]
    # One time for all: the database's, which the first chunk brings back.
    now = session.own_time()
    for chunk in _chunks(works):
        rows = session.write_returning(
            executor_statements.ENQUEUE,
            [(work.pk, work.fn_args) for work in chunk],
            pool=first.pool,
            fn_type=first.fn_type,
            fn_handle=first.fn_handle,
            fn_name=first.fn_name,
            now=now,
        )
        now = now or to_time(rows[0][0], using)
    for work in works:
        work.enqueued_at = now or clock.now(using)
        work._state.adding = False
        work._state.db = using


def _chunks(works: Sequence[Work]) -> Iterator[list[Work]]:
    """Yield pieces that are bounded in rows and in bytes."""
    chunk: list[Work] = []
    size = 0
    for work in works:
        if chunk and (len(chunk) >= CHUNK_ROWS or size >= CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(work)
        size += len(work.fn_args)
    yield chunk
