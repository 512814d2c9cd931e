"""Keyword arguments of one function: checked, and in their stored form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_workpool.arguments.codec import (
    ADVICE_STORED,
    Encoding,
    TooManyValuesError,
    decode,
)
from django_workpool.arguments.leaves import type_name
from django_workpool.exceptions import ArgumentsTooLargeError, InvalidArgumentsError
from django_workpool.registry import Function, check_signature

__all__ = ["MAX_ARGUMENTS_BYTES", "decode_arguments", "encode_arguments"]

MAX_ARGUMENTS_BYTES = 1_000_000


def encode_arguments(function: Function, args: object, /) -> str:
    """Check the keyword arguments of a function and return their stored form.

    Args:
        function: The registration of the function.
        args: A mapping of keyword arguments, or ``None`` for none.

    Raises:
        InvalidArgumentsError: No mapping, no match with the signature, or a value
            that cannot be stored.
        ArgumentsTooLargeError: More than ``MAX_ARGUMENTS_BYTES``.

    Source: conformance L1 to L3, L8; faults H1 to H3.
    """
    kwargs = _as_kwargs(args)
    check_signature(function, kwargs)
    encoding = Encoding()
    try:
        text = f'{{"args":[],"kwargs":{encoding.text_of(kwargs, "args")}}}'
    except TooManyValuesError:
        # Each takes a byte and a comma at least.
        size = 2 * encoding.values
    else:
        size = len(text) if text.isascii() else len(text.encode())
        if size <= MAX_ARGUMENTS_BYTES:
            return text
    raise ArgumentsTooLargeError(function.handle, size, MAX_ARGUMENTS_BYTES)


def decode_arguments(text: str, /) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the keyword arguments of a stored form.

    Raises:
        InvalidArgumentsError: Not of the form ``{"args": [], "kwargs": {}}``.
    """
    match decode(text):
        case {"args": list() as args, "kwargs": dict() as kwargs, **rest} if not rest:
            return args, kwargs
    raise InvalidArgumentsError("stored arguments", "another form", ADVICE_STORED)


def _as_kwargs(args: object) -> dict[str, Any]:
    if args is None:
        return {}
    if not isinstance(args, Mapping):
        advice = "Pass a mapping of keyword arguments, or None."
        raise InvalidArgumentsError("args", type_name(args), advice)
    kwargs = args if type(args) is dict else {key: args[key] for key in args}
    for kind in set(map(type, kwargs)) - {str}:
        advice = "The names of keyword arguments are str."
        raise InvalidArgumentsError("args", f"{kind.__name__} key", advice)
    return kwargs
