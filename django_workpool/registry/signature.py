"""What a function takes by keyword, and whether given arguments fit."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django_workpool.exceptions import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django_workpool.registry.functions import Function

__all__ = ["Parameters", "check_signature"]

_MISSING = "nothing, where the function needs an argument"
_UNKNOWN = "an argument that the function does not take"
_POSITIONAL_ONLY = "a positional-only parameter, which no keyword reaches"


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """A signature, reduced to what keyword arguments need.

    Attributes:
        names: Parameters that a keyword reaches.
        required: Those of them without a default.
        positional_only: Parameters that no keyword reaches.
        unreachable: Those of them without a default: no call is possible.
        takes_any: Whether there is a ``**kwargs``.
    """

    names: frozenset[str]
    required: frozenset[str]
    positional_only: frozenset[str]
    unreachable: tuple[str, ...]
    takes_any: bool

    @classmethod
    def of(cls, fn: Callable[..., Any]) -> Parameters:
        """Read the signature of a callable."""
        parameters = inspect.signature(fn).parameters.values()
        named = [
            p for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}
        ]
        positional = [p for p in parameters if p.kind is p.POSITIONAL_ONLY]
        return cls(
            names=frozenset(p.name for p in named),
            required=frozenset(p.name for p in named if p.default is p.empty),
            positional_only=frozenset(p.name for p in positional),
            unreachable=tuple(p.name for p in positional if p.default is p.empty),
            takes_any=any(p.kind is p.VAR_KEYWORD for p in parameters),
        )


def check_signature(function: Function, args: Mapping[str, object], /) -> None:
    """Check that a function can be called with these keyword arguments.

    Raises:
        InvalidArgumentsError: Its ``path`` names the parameter that is missing or
            unknown, or that is positional-only and therefore out of reach.

    Source: conformance L2.
    """
    expected = function.parameters
    given = args.keys()
    if expected.unreachable:
        raise _misfit(function, expected.unreachable[0], _POSITIONAL_ONLY)
    if not expected.required <= given:
        raise _misfit(function, min(expected.required - given), _MISSING)
    if not expected.takes_any and not given <= expected.names:
        name = min(given - expected.names)
        is_positional = name in expected.positional_only
        raise _misfit(function, name, _POSITIONAL_ONLY if is_positional else _UNKNOWN)


def _misfit(function: Function, name: str, found: str) -> InvalidArgumentsError:
    names = ", ".join(sorted(function.parameters.names)) or "nothing"
    advice = f"{function.handle} takes by keyword: {names}."
    return InvalidArgumentsError.at("args", [name], found, advice)
