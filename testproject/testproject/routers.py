"""The router of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.db.models import Model


class AliasNotNamedError(RuntimeError):
    """A query of the queue left the choice of the database to the router."""


class StrictRouter:
    """Refuse to guess: everything of the queue must name its alias.

    Django asks a router only when neither ``using`` nor a row chose a database.
    """

    def db_for_read(self, model: type[Model], **hints: object) -> str | None:
        """Return nothing, or refuse."""
        return self._route(model, hints, "read")

    def db_for_write(self, model: type[Model], **hints: object) -> str | None:
        """Return nothing, or refuse."""
        return self._route(model, hints, "write")

    def _route(
        self, model: type[Model], hints: dict[str, object], verb: str
    ) -> str | None:
        instance, pool = hints.get("instance"), hints.get("pool")
        state = getattr(instance, "_state", None)
        if model._meta.app_label != "workpool" or getattr(state, "db", None):
            return None
        if pool is not None:  # the client asks, on behalf of a pool
            return "default"
        raise AliasNotNamedError(
            f"A {verb} of {model._meta.label} names no database. "
            "Add .using(alias), or save(using=alias)."
        )
