"""From values to text and back, at any depth."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from django_workpool.arguments.leaves import (
    LEAVES,
    READERS,
    RefusedError,
    check_text,
    type_name,
)
from django_workpool.exceptions import InvalidArgumentsError

__all__ = [
    "ADVICE_STORED",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Encoding",
    "TooManyValuesError",
    "decode",
    "encode",
]

MAX_DEPTH = 500
MAX_VALUES = 1_000_000  # also ends structures that contain one part very often

_ADVICE = (
    "Pass None, bool, int, float, str, list, dict with str keys, datetime, date, time, "
    "timedelta, Decimal or UUID, each of exactly this type and finite; of a model "
    "instance its primary key, of an enum its value, of a lazy string its str()."
)
ADVICE_STORED = (
    "It was not written by this codec, or by a newer one, or on a host that knows "
    "more time zones. Check how the row came to be."
)


class TooManyValuesError(Exception):
    """More values than anything we would store."""


class Encoding:
    """One run of the encoder: the levels it is in and the values it met."""

    __slots__ = ("depth", "values")

    def __init__(self) -> None:
        self.depth = 0
        self.values = 0

    def text_of(self, value: object, root: str) -> str:
        """Return the JSON text of a value, or raise what ``encode`` does.

        Raises:
            TooManyValuesError: Besides; the count is in ``values``.
        """
        try:
            return _json_encoder.encode(self._plain(value))
        except RefusedError as refused:
            path = reversed(refused.steps)
            found = refused.found
            raise InvalidArgumentsError.at(root, path, found, _ADVICE) from None
        except (RecursionError, ValueError) as error:
            # Both depend on the moment: the caller's own stack is nearly used up, or
            # sys.set_int_max_str_digits() was lowered.
            found = f"a value too deep or too long for this process ({error})"
            raise InvalidArgumentsError(root, found, _ADVICE) from error

    # One frame for each level keeps MAX_DEPTH within the recursion limit; hence one
    # function for both containers.
    def _plain(self, value: Any) -> Any:
        kind = type(value)
        if (leaf := LEAVES.get(kind)) is not None:
            return leaf(value)
        if kind is dict:
            plain = value.copy()
            items = plain.items()
            _check_keys(plain)
        elif kind is list:
            plain = value.copy()
            items = enumerate(plain)
        else:
            raise RefusedError(type_name(value))
        self._enter(kind, len(plain))
        for step, item in items:
            try:
                plain[step] = self._plain(item)
            except RefusedError as refused:
                refused.steps.append(step)
                raise
        self.depth -= 1
        return _escaped(plain) if kind is dict and len(plain) == 1 else plain

    def _enter(self, kind: type, length: int) -> None:
        self.depth += 1
        self.values += length
        if self.values > MAX_VALUES:
            raise TooManyValuesError
        if self.depth > MAX_DEPTH:
            found = f"{kind.__name__} below {MAX_DEPTH} levels, or in itself"
            raise RefusedError(found)


def encode(value: object, *, root: str = "args") -> str:
    """Return the text that ``decode`` reads back as exactly this value.

    Args:
        value: JSON values and the typed ones of this module, at most ``MAX_DEPTH``
            levels and ``MAX_VALUES`` values.
        root: How messages call the value itself.

    Raises:
        InvalidArgumentsError: Its ``path`` and ``found`` tell the first value that
            would not come back unchanged.

    Source: conformance L3, L5 to L7; faults H1 to H3.
    """
    try:
        return Encoding().text_of(value, root)
    except TooManyValuesError:
        found = f"more than {MAX_VALUES} values"
        raise InvalidArgumentsError(root, found, _ADVICE) from None


def decode(text: str) -> Any:
    """Return the value that ``encode`` was given, made of new objects.

    Raises:
        InvalidArgumentsError: ``encode`` did not write this text, or it names a time
            zone that this host does not know.
    """
    try:
        return _json_decoder.decode(text)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        found = f"something unreadable ({type(error).__name__})"
        raise InvalidArgumentsError("stored text", found, ADVICE_STORED) from error


def _check_keys(value: dict[Any, Any]) -> None:
    for key in value:
        if type(key) is not str:
            raise RefusedError(f"{type_name(key)} key")
        check_text(key)


def _escaped(value: dict[str, Any]) -> dict[str, Any]:
    [(key, item)] = value.items()
    return {f"${key}": item} if key[:1] == "$" else value


def _unescaped(value: dict[str, Any]) -> Any:
    if len(value) != 1:
        return value
    [(key, item)] = value.items()
    if key[:1] != "$":
        return value
    return {key[1:]: item} if key[1:2] == "$" else READERS[key](item)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


# Cycles end at MAX_DEPTH, so the encoder need not look for them.
_json_encoder = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
)
_json_decoder = json.JSONDecoder(
    object_hook=_unescaped, parse_constant=_refuse_constant
)
