"""Enqueue: the blocking methods of ``Workpool`` that make works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_workpool.choices import FunctionKind
from django_workpool.client.engine import engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django_workpool.models import Work


class Enqueueing:
    """What enqueues; all of it is part of the caller's transaction."""

    if TYPE_CHECKING:
        name: str

        @property
        def alias(self) -> str:
            """The alias of the pool's database."""

    def _enqueue(
        self, kind: FunctionKind, fn: object, batch: object, options: dict[str, Any]
    ) -> list[Work]:
        found: list[Work] = engine("enqueue").enqueue(
            self.alias, self.name, kind, fn, batch, options
        )
        return found

    def _enqueue_one(
        self, kind: FunctionKind, fn: object, args: object, options: dict[str, Any]
    ) -> Work:
        found: Work = engine("enqueue").enqueue_one(
            self.alias, self.name, kind, fn, args, options
        )
        return found

    def enqueue_action(
        self, fn: Callable[..., object], args: object = None, /, **options: Any
    ) -> Work:
        """Enqueue a call of an action, as part of the caller's transaction.

        Args:
            fn: A function registered by ``@action``.
            args: A mapping of its keyword arguments; ``None`` for none.  JSON values,
                and datetime, date, time, timedelta, Decimal and UUID, at any depth.
            **options: ``name`` is what people see instead of the function's name.

        Returns:
            The ``Work``; its ``pk`` is a UUID of version 7.

        Raises:
            NotRegisteredError: Not a registered function of an installed app.
            InvalidArgumentsError: Arguments that do not fit, or cannot be stored
            exactly. ArgumentsTooLargeError: More than 1 MB of them. InvalidOptionError:
            A function of another kind, or an unknown option.

        Source: DESIGN 5; conformance A1 to A17, L; the seed's ``enqueueAction``.
        """
        return self._enqueue_one(FunctionKind.ACTION, fn, args, options)

    def enqueue_mutation(
        self, fn: Callable[..., object], args: object = None, /, **options: Any
    ) -> Work:
        """Enqueue a call of a mutation; everything as in ``enqueue_action``."""
        return self._enqueue_one(FunctionKind.MUTATION, fn, args, options)

    def enqueue_action_batch(
        self, fn: Callable[..., object], batch: Iterable[object], /, **options: Any
    ) -> list[Work]:
        """Enqueue one call for each element of *batch*; all of them or none.

        Args:
            fn: A function registered by ``@action``.
            batch: Mappings of keyword arguments, or ``None``; may be empty.
            **options: As for one; they apply to every work.

        Returns:
            The works, in input order.

        Raises:
            Exception: As ``enqueue_action``; then nothing is written.

        Source: conformance A6, A7, A9.
        """
        return self._enqueue(FunctionKind.ACTION, fn, batch, options)

    def enqueue_mutation_batch(
        self, fn: Callable[..., object], batch: Iterable[object], /, **options: Any
    ) -> list[Work]:
        """Enqueue a batch of a mutation; everything as in ``enqueue_action_batch``."""
        return self._enqueue(FunctionKind.MUTATION, fn, batch, options)
