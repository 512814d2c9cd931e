"""What a test finds in the log: the lines of our loggers, and the events among them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

    import pytest

EVENTS = "django_workpool.events"
LOOP = "django_workpool.loop"


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of our own loggers."""
    return [record for record in caplog.records if record.name.startswith("django_w")]


def events(caplog: pytest.LogCaptureFixture, name: str = "") -> list[dict[str, Any]]:
    """Return the events called *name* (all, if none is named), in their order."""
    found = [json.loads(r.getMessage()) for r in caplog.records if r.name == EVENTS]
    return [event for event in found if name in {"", event["event"]}]


def names(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the names of all events, in their order."""
    return [event["event"] for event in events(caplog)]


def phase_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of phase timers."""
    messages = [r.getMessage() for r in caplog.records if r.name == LOOP]
    return [message for message in messages if message.startswith("phases ")]
