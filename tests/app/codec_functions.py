"""Registered functions for the tests of the registry and the codec."""

from __future__ import annotations

import functools
from typing import Any

from django_workpool import action, mutation, query


@action
def send_letter(address: str, subject: str = "", *, copies: int = 1) -> str:
    """Take a required, an optional and a keyword-only argument."""
    return f"{copies} of {subject!r} to {address}"


@action
async def fetch_letter(address: str) -> str:
    """Run on the loop."""
    return address


@mutation
def count_letter() -> int:
    """Take nothing."""
    return 1


@query
def list_letters() -> list[str]:
    """Only read."""
    return []


@action
def take_anything(**values: Any) -> dict[str, Any]:
    """Take every name."""
    return values


@action
def take_anything_and(first: Any, **values: Any) -> Any:
    """Take every name, and need one."""
    return first, values


@action
def positional_only(value: Any, /) -> Any:
    """Cannot be called by keyword."""
    return value


@action
def positional_default(value: Any = None, /, other: Any = None) -> Any:
    """Can be called by keyword, but for its first parameter."""
    return value, other


@action
@functools.cache
def remember_letter(address: str) -> str:
    """Be a callable object that is no function."""
    return address


def not_registered() -> None:
    """Be forgotten by its author."""


class Desk:
    """Hold what cannot be registered."""

    @action
    def write(self) -> None:
        """Be a method."""

    @action
    @staticmethod
    def sign() -> None:
        """Be a static method."""


nameless = action(lambda: None)
kept_class = action(Desk)
