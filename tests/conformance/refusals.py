"""Errors as values, for tests that compare several of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_Error = TypeVar("_Error", bound=BaseException)


def refusal(
    error: type[_Error], call: Callable[..., object], /, *args: Any, **options: Any
) -> _Error:
    """Return the *error* that a call raises; fail if it raises none."""
    with pytest.raises(error) as raised:
        call(*args, **options)
    return raised.value
