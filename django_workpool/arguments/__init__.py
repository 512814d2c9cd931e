"""The codec of arguments and results: strict JSON text that reads back exactly.

Stored are None, bool, int, float, str, list and dict with text keys, as JSON, and::

    {"$datetime": "2026-10-25T02:30:00+01:00"}        naive, or with a fixed offset
    {"$datetime": ["2026-10-25T02:30:00", 1, "Europe/Berlin"]}     with fold and zone
    {"$time": …}                                      as datetime
    {"$date": "2026-10-25"}   {"$timedelta": [days, seconds, microseconds]}
    {"$decimal": "1.10"}      {"$uuid": "…"}

A mapping whose only key begins with ``$`` could be taken for one of these; it is stored
with one more ``$``, which decoding takes away.  As neither looks at the value, this
holds at any depth.  Only exact types are accepted: a subclass would not come back.

Messages name paths and types, never values.
"""

from __future__ import annotations

from django_workpool.arguments.codec import (
    MAX_DEPTH,
    MAX_VALUES,
    decode,
    encode,
)
from django_workpool.arguments.keywords import (
    MAX_ARGUMENTS_BYTES,
    decode_arguments,
    encode_arguments,
)
from django_workpool.arguments.leaves import MAX_INT_DIGITS

__all__ = [
    "MAX_ARGUMENTS_BYTES",
    "MAX_DEPTH",
    "MAX_INT_DIGITS",
    "MAX_VALUES",
    "decode",
    "decode_arguments",
    "encode",
    "encode_arguments",
]
