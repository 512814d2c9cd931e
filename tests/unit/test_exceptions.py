"""The errors: built-in bases, attributes, messages of three parts, pickling."""

from __future__ import annotations

import copy
import inspect
import os
import pickle  # noqa: TID251 -- process pools of the users' own do it
import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist

import django_workpool
from django_workpool import exceptions
from django_workpool.exceptions import (
    ArgumentsTooLargeError,
    InvalidArgumentsError,
    InvalidOptionError,
    NotInWorkError,
    NotRegisteredError,
    UnsafeWaitError,
    WorkerLostError,
    WorkNotFinishedError,
    WorkNotFoundError,
    WorkpoolConfigError,
    WorkpoolError,
)

WORK_ID = UUID("01930000-0000-7000-8000-000000000001")
EXAMPLES = [
    (
        NotRegisteredError("app.f", ["app.g", "app.h"]),
        (LookupError,),
        {"handle": "app.f", "close_matches": ("app.g", "app.h")},
        ["'app.f'", "'app.g', 'app.h'", "@action"],
    ),
    (
        NotRegisteredError("app.f"),
        (LookupError,),
        {"handle": "app.f", "close_matches": ()},
        ["'app.f'", "Put @action"],
    ),
    (
        InvalidArgumentsError('args["a"][2]', "bytes", "Pass text."),
        (TypeError, ValueError),
        {"path": 'args["a"][2]', "found": "bytes", "advice": "Pass text."},
        ['args["a"][2]', "bytes", "Pass text."],
    ),
    (
        InvalidOptionError("max_parallelism", -1, "Give 0 to 10000."),
        (TypeError, ValueError),
        {"option": "max_parallelism", "value": -1},
        ["max_parallelism", "-1", "Give 0 to 10000."],
    ),
    (
        ArgumentsTooLargeError("app.f", 1_000_001, 1_000_000),
        (ValueError,),
        {"function": "app.f", "size": 1_000_001, "limit": 1_000_000},
        ["'app.f'", "1000001", "1000000", "Store the data yourself"],
    ),
    (
        WorkNotFoundError(WORK_ID),
        (ObjectDoesNotExist,),
        {"work_id": WORK_ID},
        [str(WORK_ID), "Check the id"],
    ),
    (
        WorkNotFinishedError(WORK_ID, "pending"),
        (RuntimeError,),
        {"work_id": WORK_ID, "kind": "pending"},
        [str(WORK_ID), "pending", "wait()"],
    ),
    (
        UnsafeWaitError("emails", "a transaction is open"),
        (RuntimeError,),
        {"pool": "emails", "reason": "a transaction is open"},
        ["'emails'", "a transaction is open", "Wait after"],
    ),
    (
        NotInWorkError(),
        (RuntimeError,),
        {},
        ["no current work", "inside a function"],
    ),
    (
        WorkpoolConfigError("WORKPOOL_THREADS", "many", "Give a whole number."),
        (ImproperlyConfigured,),
        {
            "setting": "WORKPOOL_THREADS",
            "value": "many",
            "hint": "Give a whole number.",
        },
        ["WORKPOOL_THREADS", "'many'", "Give a whole number."],
    ),
    (
        WorkerLostError(WORK_ID, 2),
        (WorkpoolError,),
        {"worker": WORK_ID, "attempt": 2},
        [str(WORK_ID), "attempt 2", "look at"],
    ),
]
IDS = [f"{number}-{type(row[0]).__name__}" for number, row in enumerate(EXAMPLES)]
Example = tuple[WorkpoolError, tuple[type, ...], dict[str, object], list[str]]


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_an_error_is_ours_and_the_nearest_built_in_one(example: Example) -> None:
    error, bases, _, _ = example

    assert isinstance(error, WorkpoolError)
    assert [base for base in bases if not isinstance(error, base)] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_an_error_carries_its_facts_as_attributes(example: Example) -> None:
    error, _, attributes, _ = example

    assert vars(error) == attributes


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_a_message_tells_what_is_wrong_the_value_and_what_to_do(
    example: Example,
) -> None:
    error, _, _, parts = example

    assert [part for part in parts if part not in str(error)] == []
    assert str(error).endswith(".")


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
@pytest.mark.parametrize(
    "travel",
    [lambda error: pickle.loads(pickle.dumps(error)), copy.copy],  # noqa: S301
    ids=["pickle", "copy"],
)
def test_an_error_travels_between_processes(example: Example, travel) -> None:  # type: ignore[no-untyped-def]
    error, _, attributes, _ = example

    arrived = travel(error)

    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == attributes


def test_every_error_is_public_drawn_and_shown_here() -> None:
    defined = {
        name
        for name, value in inspect.getmembers(exceptions, inspect.isclass)
        if issubclass(value, WorkpoolError)
    }
    shown = {type(row[0]).__name__ for row in EXAMPLES}

    assert sorted(defined, key=str.lower) == sorted(exceptions.__all__, key=str.lower)
    assert defined == {*shown, "WorkpoolError"}
    assert defined == set(re.findall(r"\b\w+Error\b", exceptions.__doc__ or "")) - {
        base.__name__ for base in (LookupError, RuntimeError, TypeError, ValueError)
    }


def test_a_long_path_is_shortened_in_the_message_only() -> None:
    error = InvalidArgumentsError.at("args", ["a", *range(400)], "set", "Pass a list.")

    assert error.path.startswith('args["a"][0][1]')
    assert error.path.endswith("[398][399]")
    assert str(error).startswith('args["a"][0][1]')
    assert "[398][399]: found set" in str(error)
    assert len(str(error)) < 250


def test_a_key_that_cannot_be_printed_is_shown_escaped() -> None:
    error = InvalidArgumentsError.at(
        "args", ['say "hi"', "\ud800\0", "é" * 100], "set", "Pass a list."
    )

    assert error.path == (r'args["say \"hi\""]["\ud800\u0000"]' + f'["{"é" * 59}…"]')
    assert str(error).encode()


def test_errors_import_without_settings() -> None:
    code = (
        "import django_workpool.exceptions\n"
        "from django.conf import settings\n"
        "print(settings.configured)"
    )
    package = Path(django_workpool.__file__).parent
    env = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env | {"PYTHONPATH": str(package.parent)},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == "False"
