"""The codec: exact at any depth, or refused with path and type."""

from __future__ import annotations

import enum
import io
import json
import math
import sys
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.utils.translation import gettext_lazy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from django_workpool.arguments import (
    MAX_ARGUMENTS_BYTES,
    MAX_DEPTH,
    MAX_INT_DIGITS,
    MAX_VALUES,
    decode,
    decode_arguments,
    encode,
    encode_arguments,
)
from django_workpool.exceptions import ArgumentsTooLargeError, InvalidArgumentsError
from django_workpool.registry import handle_of
from tests.app.codec_functions import count_letter, send_letter, take_anything
from tests.app.models import Counter

if TYPE_CHECKING:
    from collections.abc import Callable

BERLIN = ZoneInfo("Europe/Berlin")
MOMENT = datetime(2026, 10, 25, 2, 30, 15, 123456)  # noqa: DTZ001 -- naive is a case
# The least file of a time zone (RFC 8536): one type of local time, which is UTC.
UTC_FILE = b"TZif" + bytes(16 + 16) + b"\0\0\0\1\0\0\0\4" + bytes(6) + b"UTC\0"
ANYTHING = handle_of(take_anything)

zones = st.one_of(
    st.none(),
    st.sampled_from([UTC, BERLIN, ZoneInfo("UTC"), ZoneInfo("America/St_Johns")]),
    st.builds(
        timezone,
        st.timedeltas(
            timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)
        ),
    ),
    st.builds(
        timezone,
        st.timedeltas(timedelta(hours=-23), timedelta(hours=23)),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    ),
)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
keys = texts | st.sampled_from(["$", "$$", "$date", "$$date", "$datetime", "$uuid", ""])
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**53, max_value=10**400),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.datetimes(timezones=zones, allow_imaginary=True),
    st.builds(
        lambda moment, fold: moment.replace(fold=fold), st.datetimes(), st.just(1)
    ),
    st.dates(),
    st.times(timezones=zones),
    st.timedeltas(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.uuids(),
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3)
        | st.builds(lambda key, value: {key: value}, keys, inner)
    ),
    max_leaves=20,
)


class Color(enum.StrEnum):
    """An enum that is text, too."""

    RED = "red"


class Name(str):
    """A subclass, as markup libraries have them."""

    __slots__ = ()


class Fraction(float):
    """A subclass of float."""


class Later(datetime):
    """A subclass, as date libraries have them."""


class OwnZone(ZoneInfo):
    """A time zone of nobody's."""


class OwnUUID(UUID):
    """A subclass of UUID."""


Point = namedtuple("Point", "x y")  # noqa: PYI024 -- the untyped kind is a case


def nested(depth: int, inner: object = None) -> Any:
    """Put a value into that many lists."""
    for _ in range(depth):
        inner = [inner]
    return inner


def keyed(depth: int, inner: object = None) -> Any:
    """Put a value into that many mappings."""
    for _ in range(depth):
        inner = {"$date": inner}
    return inner


def cyclic_list() -> list[Any]:
    """Return a list that contains itself."""
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def cyclic_dict() -> dict[str, Any]:
    """Return a mapping that contains itself."""
    cycle: dict[str, Any] = {}
    cycle["again"] = [cycle]
    return cycle


def with_frames_left(frames: int, call: Callable[[], object]) -> object:
    """Call with no more than that many frames below the recursion limit."""

    def descend(depth: int) -> object:
        return descend(depth - 1) if depth else call()

    used, frame = 0, sys._getframe()
    while frame.f_back is not None:
        used, frame = used + 1, frame.f_back
    return descend(sys.getrecursionlimit() - used - frames)


def assert_same(expected: object, actual: object) -> None:
    """Compare types, values, order, folds, zones, exponents and signs of zero."""
    assert type(actual) is type(expected)
    assert repr(actual) == repr(expected)


@given(values)
@settings(deadline=None, max_examples=300)
@example({"$date": "2026-10-25"})
@example({"$$": {"$date": {"$$date": date(2026, 10, 25)}}})
@example(MOMENT.replace(tzinfo=timezone(timedelta(microseconds=-1), "µ"), fold=1))
def test_what_is_accepted_comes_back_exactly(value: object) -> None:
    """L5, L6, L7."""
    assert_same(value, decode(encode(value)))


@given(st.dictionaries(keys, values, max_size=4))
@settings(deadline=None)
def test_keyword_arguments_come_back_exactly(kwargs: dict[str, Any]) -> None:
    """L5, L6, L7."""
    args, decoded = decode_arguments(encode_arguments(ANYTHING, kwargs))

    assert_same(kwargs, decoded)
    assert args == []


@pytest.mark.parametrize(
    "value",
    [
        MOMENT,
        MOMENT.replace(fold=1),
        MOMENT.replace(tzinfo=UTC),
        MOMENT.replace(tzinfo=UTC, fold=1),
        MOMENT.replace(tzinfo=BERLIN),
        MOMENT.replace(tzinfo=BERLIN, fold=1),
        MOMENT.replace(tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
        MOMENT.replace(tzinfo=timezone(timedelta(seconds=1))),
        MOMENT.replace(tzinfo=timezone(timedelta(microseconds=1))),
        MOMENT.replace(tzinfo=timezone(timedelta(0), "Zulu")),
        MOMENT.replace(tzinfo=timezone(timedelta(hours=1), "")),
        datetime.min,  # noqa: DTZ901 -- naive is a case
        datetime.max.replace(tzinfo=UTC),
        date.min,
        date.max,
        time(2, 30),
        time(2, 30, fold=1),
        time(2, 30, tzinfo=UTC),
        time(2, 30, 1, 5, tzinfo=BERLIN, fold=1),
        time(2, 30, tzinfo=timezone(timedelta(hours=2), "EET")),
        timedelta.min,
        timedelta.max,
        timedelta(microseconds=-1),
        Decimal("1.10"),
        Decimal("-0"),
        Decimal("1E+1000"),
        Decimal("0E-1000"),
        Decimal("9" * 5000),
        UUID(int=0),
        UUID("963145c4-ecbc-4e4e-aff1-92866e24e8e8"),
    ],
    ids=repr,
)
def test_a_typed_value_comes_back_at_any_depth(value: object) -> None:
    """L5."""
    deep = {"a": [value, {"b": {"c": [[value]]}}]}

    assert_same(value, decode(encode(value)))
    assert_same(deep, decode(encode(deep)))


@pytest.mark.parametrize(
    "value",
    [
        {"$date": "2026-10-25"},
        {"$date": date(2026, 10, 25)},
        {"$$date": "2026-10-25"},
        {"$": 1},
        {"$$": {"$$$": {"$unknown": None}}},
        {"$uuid": {"$uuid": {"$uuid": "no"}}},
        {"$datetime": [1, 2, 3]},
        {"$date": "2026-10-25", "other": 1},
        [{"$decimal": "NaN"}, {"$date": {}}],
        {"$args": []},
        keyed(MAX_DEPTH - 1, {}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_mapping_that_looks_like_a_typed_value_stays_a_mapping(value: object) -> None:
    """L6."""
    assert_same(value, decode(encode(value)))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        "",
        [],
        {},
        2**53 + 1,
        -(2**64),
        10**MAX_INT_DIGITS - 1,
        -(10**MAX_INT_DIGITS) + 1,
        -0.0,
        0.1 + 0.2,
        5e-324,
        sys.float_info.max,
        1e22,
        "\U0001f600 \u05d0\u202e e\u0301 \u2028 \x01 \\u0000 \ud7ff\uffff",
        "a" * 999_000,
        {"": {"\U0001f600": 1}},
        nested(MAX_DEPTH),
        {str(number): number for number in range(100_000)},
    ],
    ids=lambda value: repr(value)[:25],
)
def test_plain_values_are_unchanged(value: object) -> None:
    """L7."""
    assert_same(value, decode(encode(value)))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (math.nan, "float nan"),
        (math.inf, "float inf"),
        (-math.inf, "float -inf"),
        (Fraction(1.5), "tests.unit.test_arguments.Fraction"),
        (10**MAX_INT_DIGITS, "int of more than 4300 digits"),
        (-(10**MAX_INT_DIGITS), "int of more than 4300 digits"),
        (10**6000, "int of more than 4300 digits"),
        ({1: 2}, "int key"),
        ({None: 2}, "NoneType key"),
        ({True: 2}, "bool key"),
        ({Name("a"): 2}, "tests.unit.test_arguments.Name key"),
        ({"a\0": 2}, "str with a NUL character"),
        ({"\ud800": 2}, "str with a lone surrogate"),
        ("a\0", "str with a NUL character"),
        ("a\udfff", "str with a lone surrogate"),
        (b"a", "bytes"),
        (bytearray(b"a"), "bytearray"),
        ({1}, "set"),
        (frozenset({1}), "frozenset"),
        ((1, 2), "tuple"),
        (Point(1, 2), "tests.unit.test_arguments.Point"),
        (Color.RED, "tests.unit.test_arguments.Color"),
        (Name("a"), "tests.unit.test_arguments.Name"),
        (OrderedDict(a=1), "collections.OrderedDict"),
        (MappingProxyType({"a": 1}), "mappingproxy"),
        (range(3), "range"),
        (1j, "complex"),
        (object(), "object"),
        (dict, "type"),
        (Counter(name="a"), "tests.app.models.Counter"),
        (gettext_lazy("a"), "django.utils.functional."),
        (Decimal("NaN"), "Decimal that is not finite"),
        (Decimal("sNaN"), "Decimal that is not finite"),
        (Decimal("-Infinity"), "Decimal that is not finite"),
        (Later(2026, 1, 1), "tests.unit.test_arguments.Later"),
        (OwnUUID(int=1), "tests.unit.test_arguments.OwnUUID"),
        (
            MOMENT.replace(tzinfo=OwnZone("UTC")),
            "tzinfo tests.unit.test_arguments.OwnZone",
        ),
        (time(1, tzinfo=OwnZone("UTC")), "tzinfo tests.unit.test_arguments.OwnZone"),
        (MOMENT.replace(tzinfo=timezone(timedelta(0), "\0")), "NUL character"),
        (cyclic_list(), "list below 500 levels, or in itself"),
        (nested(MAX_DEPTH), "list below 500 levels"),
        (nested(10_000), "list below 500 levels"),
        (keyed(MAX_DEPTH), "dict below 500 levels"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isprintable() else "",
)
def test_what_would_not_come_back_is_refused_with_path_and_type(
    value: object, found: str
) -> None:
    """L3."""
    with pytest.raises(InvalidArgumentsError) as caught:
        encode({"a": [0, 1, value]})

    assert caught.value.path.startswith('args["a"][2]')
    assert found in caught.value.found
    assert caught.value.found in str(caught.value)
    assert "Pass None, bool, int" in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (b"", "result"),
        ([b""], "result[0]"),
        ({"a": {"b": b""}}, 'result["a"]["b"]'),
        ({"a": {1: 2}}, 'result["a"]'),
        ([[], [[1], [2, {"x": [b""]}]]], 'result[1][1][1]["x"][0]'),
        ({"$date": b""}, 'result["$date"]'),
    ],
    ids=["itself", "list", "dict", "key", "deep", "escaped"],
)
def test_a_path_leads_from_the_root_to_the_value(value: object, path: str) -> None:
    """L3."""
    with pytest.raises(InvalidArgumentsError) as caught:
        encode(value, root="result")

    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: found ")


@pytest.mark.parametrize("nest", [nested, keyed])
def test_the_limit_of_levels_is_exact(nest: Callable[[int, object], Any]) -> None:
    """L3, L7."""
    assert_same(nest(MAX_DEPTH, 1), decode(encode(nest(MAX_DEPTH, 1))))
    with pytest.raises(InvalidArgumentsError, match="below 500 levels"):
        encode(nest(MAX_DEPTH + 1, 1))


@pytest.mark.parametrize("cycle", [cyclic_list(), cyclic_dict()], ids=["list", "dict"])
def test_a_cycle_is_refused(cycle: object) -> None:
    """L3."""
    with pytest.raises(InvalidArgumentsError, match="or in itself"):
        encode(cycle)


@pytest.mark.parametrize("key", [None, "No/Such_Zone", "../outside", "Europe"])
def test_a_time_zone_that_cannot_be_looked_up_is_refused(key: str | None) -> None:
    """L3."""
    zone = ZoneInfo.from_file(io.BytesIO(UTC_FILE), key=key)

    with pytest.raises(InvalidArgumentsError, match="no known ZoneInfo key"):
        encode(MOMENT.replace(tzinfo=zone))


@pytest.mark.parametrize("frames", [400, 100, 50])
def test_a_caller_that_is_deep_itself_gets_no_recursion_error(frames: int) -> None:
    """L3."""
    value = nested(MAX_DEPTH)

    with pytest.raises(InvalidArgumentsError, match="for this process"):
        with_frames_left(frames, lambda: encode(value))


def test_a_deep_caller_may_pass_ordinary_arguments() -> None:
    assert with_frames_left(60, lambda: encode({"a": [1, {"b": 2}]}))


def test_a_lowered_limit_of_digits_is_no_surprise() -> None:
    """L3."""
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)

    try:
        with pytest.raises(InvalidArgumentsError, match="for this process"):
            encode(10**1000)
    finally:
        sys.set_int_max_str_digits(usual)


def test_a_structure_of_too_many_values_is_refused_in_bounded_time() -> None:
    """L8."""
    shared: list[Any] = []
    for _ in range(100):
        shared = [shared, shared]

    with pytest.raises(InvalidArgumentsError, match=f"more than {MAX_VALUES} values"):
        encode(shared)
    with pytest.raises(ArgumentsTooLargeError) as caught:
        encode_arguments(ANYTHING, {"a": shared})

    assert caught.value.size > MAX_VALUES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nonsense",
        "NaN",
        "[Infinity]",
        "-Infinity",
        '{"$unknown": 1}',
        '{"$": 1}',
        '{"$date": 7}',
        '{"$date": "yesterday"}',
        '{"$datetime": []}',
        '{"$datetime": ["2026-10-25T02:30:00", 0, "No/Such_Zone"]}',
        '{"$datetime": ["2026-10-25T02:30:00", 7, null]}',
        '{"$timedelta": [1e400]}',
        '{"$timedelta": [1000000000, 0, 0]}',
        '{"$decimal": "much"}',
        '{"$decimal": {}}',
        '{"$uuid": "none"}',
        '{"$uuid": 7}',
        "1" * 5000,
        "[" * 200_000,
        None,
        b"1",
    ],
    ids=lambda text: repr(text)[:40],
)
def test_a_text_of_somebody_else_is_refused(text: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="found something unreadable"):
        decode(text)


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "{}",
        '{"args": []}',
        '{"kwargs": {}}',
        '{"args": {}, "kwargs": {}}',
        '{"args": [], "kwargs": []}',
        '{"args": [], "kwargs": {}, "more": 1}',
        '{"args": [], "kwargs": {"$date": "2026-10-25"}}',
        '{"args": [], "kwargs": null}',
    ],
)
def test_a_text_that_holds_no_arguments_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="stored arguments"):
        decode_arguments(text)


def test_positional_arguments_can_be_stored() -> None:
    assert decode_arguments('{"args": [1, {"$date": "2026-10-25"}], "kwargs": {}}') == (
        [1, date(2026, 10, 25)],
        {},
    )


@pytest.mark.parametrize("args", [None, {}], ids=["None", "empty"])
def test_no_arguments_are_an_empty_call(args: object) -> None:
    """L1."""
    text = encode_arguments(handle_of(count_letter), args)

    assert json.loads(text) == {"args": [], "kwargs": {}}
    assert decode_arguments(text) == ([], {})


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ([], "list"),
        ([("address", "Rome")], "list"),
        ("address", "str"),
        (7, "int"),
        (False, "bool"),
        (("Rome",), "tuple"),
        ({"address"}, "set"),
        (object(), "object"),
    ],
    ids=["empty-list", "pairs", "str", "int", "False", "tuple", "set", "object"],
)
def test_anything_but_a_mapping_is_refused(args: object, found: str) -> None:
    """L1."""
    with pytest.raises(InvalidArgumentsError, match="Pass a mapping") as caught:
        encode_arguments(ANYTHING, args)

    assert ("args", found) == (caught.value.path, caught.value.found)


@pytest.mark.parametrize(
    "args",
    [MappingProxyType({"b": 1, "a": [2]}), OrderedDict(b=1, a=[2])],
    ids=["proxy", "ordered"],
)
def test_any_mapping_of_arguments_is_accepted(args: object) -> None:
    """L1."""
    decoded = decode_arguments(encode_arguments(ANYTHING, args))

    assert_same({"b": 1, "a": [2]}, decoded[1])


@pytest.mark.parametrize("key", [1, None, ("a",), Name("a")], ids=repr)
def test_the_name_of_an_argument_is_text(key: object) -> None:
    """L3."""
    with pytest.raises(
        InvalidArgumentsError, match="names of keyword arguments are str"
    ):
        encode_arguments(ANYTHING, {key: 1})


def test_the_signature_is_checked() -> None:
    """L2."""
    with pytest.raises(InvalidArgumentsError) as caught:
        encode_arguments(handle_of(send_letter), {"subject": "Hi"})

    assert caught.value.path == 'args["address"]'


def test_a_refusal_names_the_argument() -> None:
    """L3."""
    with pytest.raises(InvalidArgumentsError) as caught:
        encode_arguments(handle_of(send_letter), {"address": {"to": [b""]}})

    assert caught.value.path == 'args["address"]["to"][0]'


@pytest.mark.parametrize("letter", ["a", "\u00e9", "\U0001f600"], ids=ascii)
def test_the_limit_counts_bytes_and_is_exact(letter: str) -> None:
    """L8."""
    function = handle_of(send_letter)
    room = MAX_ARGUMENTS_BYTES - len(encode_arguments(function, {"address": ""}))
    count, rest = divmod(room, len(letter.encode()))
    address = letter * count + "x" * rest

    stored = encode_arguments(function, {"address": address})
    with pytest.raises(ArgumentsTooLargeError) as caught:
        encode_arguments(function, {"address": address + "x"})

    assert decode_arguments(stored) == ([], {"address": address})
    assert caught.value.function == function.handle
    assert caught.value.size == MAX_ARGUMENTS_BYTES + 1
    assert caught.value.limit == MAX_ARGUMENTS_BYTES
    assert function.handle in str(caught.value)
    assert str(MAX_ARGUMENTS_BYTES + 1) in str(caught.value)


def test_ten_megabytes_are_refused_with_their_size() -> None:
    """L8."""
    with pytest.raises(ArgumentsTooLargeError) as caught:
        encode_arguments(ANYTHING, {"a": "a" * 10_000_000})

    assert caught.value.size > 10_000_000


def test_the_objects_of_the_caller_are_left_alone() -> None:
    """L5, L6."""
    args = {"$date": [{"$date": MOMENT}, {"a": {"$uuid": [1]}}]}
    before = repr(args)

    encode_arguments(ANYTHING, args)

    assert repr(args) == before


def test_a_message_never_shows_a_value() -> None:
    """L3."""
    with pytest.raises(InvalidArgumentsError) as caught:
        encode_arguments(ANYTHING, {"password": ["secret\0"], "other": "secret"})

    assert "secret" not in str(caught.value)
