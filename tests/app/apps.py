"""Configuration of the test app."""

from __future__ import annotations

import os

from django.apps import AppConfig


class TestsAppConfig(AppConfig):
    """The app of the tests."""

    name = "tests.app"
    label = "tests_app"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Take away the nets below lost wake-ups, so that a test sees them fall."""
        seconds = os.environ.get("WORKPOOL_TEST_BACKSTOP")
        if seconds:
            from django_workpool.db import wake
            from django_workpool.runner import crew

            wake.BACKSTOP = wake.Polling.interval = float(seconds)
            crew.POLL_WITH_LOOP = float(seconds)
