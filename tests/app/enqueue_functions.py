"""Functions for the tests of enqueue, arguments and pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_workpool import Workpool, action, current_work, mutation, query
from tests.journal import journaled, write

if TYPE_CHECKING:
    from collections.abc import Iterator


@action
def describe(**values: Any) -> str:
    """Return what it was given as text that shows every type and every value."""
    with journaled():
        return repr(values)


@action
def greet(name: str, greeting: str = "Hello", *, marks: int = 1) -> str:
    """Take a required, an optional and a keyword-only argument."""
    with journaled():
        return f"{greeting}, {name}{'!' * marks}"


@action
def measure(**texts: str) -> dict[str, int]:
    """Return the lengths of texts that are too long to return."""
    with journaled():
        return {key: len(text) for key, text in texts.items()}


@action
def needs_text(text: str) -> int:
    """Return the length of a text."""
    with journaled():
        return len(text)


@query
def look() -> None:
    """Be of the third kind; it is only refused until queries can be enqueued."""


@action
def return_secretly() -> set[str]:
    """Return what cannot be stored."""
    with journaled():
        return {"a set"}


@mutation
def enqueue_inside(pool: str, name: str, *, fails: bool = False) -> str:
    """Enqueue in the transaction of a mutation, and witness that it was done."""
    with journaled():
        work = Workpool(pool).enqueue_action(greet, {"name": name})
        write("enqueued", inner=str(work.pk))
        if fails:
            msg = "after the enqueue"
            raise ValueError(msg)
        return str(work.pk)


@action
def wait_for_itself(pool: str) -> None:
    """Wait inside a work of the same pool."""
    with journaled():
        Workpool(pool).wait(current_work().work_id)


def describes(**values: Any) -> None:
    """Be a function that its author forgot to decorate."""


class Desk:
    """Hold what cannot be registered."""

    @action
    def write(self) -> None:
        """Be a method."""


def numbers() -> Iterator[int]:
    """Run nothing when it is called; no function of a pool."""
    yield 1
