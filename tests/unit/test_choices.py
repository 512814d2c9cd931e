"""The closed vocabularies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import django_workpool
from django_workpool import choices
from django_workpool.choices import (
    CompletionStatus,
    FunctionKind,
    LogLevel,
    LoopState,
    WorkerState,
    WorkKind,
)

if TYPE_CHECKING:
    from django.db.models import TextChoices


@pytest.mark.parametrize(
    ("vocabulary", "values"),
    [
        (FunctionKind, ["action", "mutation", "query"]),
        (LoopState, ["running", "scheduled", "idle"]),
        (CompletionStatus, ["success", "error", "canceled", "timeout"]),
        (WorkKind, ["pending", "in_progress", "completed"]),
        (WorkerState, ["starting", "ready", "draining", "stopped", "dead"]),
        (LogLevel, ["DEBUG", "INFO", "REPORT", "WARNING", "ERROR"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_stored_values_are_contract(
    vocabulary: type[TextChoices], values: list[str]
) -> None:
    assert vocabulary.values == values


def test_every_vocabulary_is_public() -> None:
    defined = [
        name
        for name, value in vars(choices).items()
        if isinstance(value, type) and value.__module__ == choices.__name__
    ]

    assert sorted(defined, key=str.lower) == sorted(choices.__all__, key=str.lower)


def test_choices_import_in_a_bare_interpreter() -> None:
    code = (
        "from django_workpool.choices import WorkKind\n"
        "from django.conf import settings\n"
        "print(settings.configured, WorkKind('pending'))"
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

    assert done.stdout.strip() == "False pending"
