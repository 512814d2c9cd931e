"""What ``current_work()`` returns inside a function."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from django_workpool.exceptions import NotInWorkError

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID


class CurrentWork:
    """The work whose function runs here; read only.

    ``cancel_requested`` is live: it turns true while the function runs, some
    milliseconds after the pass that flagged the work.
    """

    __slots__ = ("_attempt", "_is_canceled", "_pool", "_work_id")

    def __init__(
        self, *, work_id: UUID, attempt: int, pool: str, is_canceled: Callable[[], bool]
    ) -> None:
        """Bind to one hand-out."""
        self._work_id = work_id
        self._attempt = attempt
        self._pool = pool
        self._is_canceled = is_canceled

    @property
    def work_id(self) -> UUID:
        """The id of the work."""
        return self._work_id

    @property
    def attempt(self) -> int:
        """1 for the first attempt; counted failures so far + 1."""
        return self._attempt

    @property
    def pool(self) -> str:
        """The name of the pool."""
        return self._pool

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody canceled the work while it runs."""
        return self._is_canceled()


running: ContextVar[CurrentWork] = ContextVar("workpool_current_work")


def current_work() -> CurrentWork:
    """Return the work that the calling function runs for.

    Works in threads and coroutines alike; a thread that the function starts itself sees
    it only if it copies the context.

    Raises:
        NotInWorkError: The caller runs outside a work.

    Source: conformance D18 and D19; no counterpart in the seed.
    """
    try:
        return running.get()
    except LookupError:
        raise NotInWorkError from None
