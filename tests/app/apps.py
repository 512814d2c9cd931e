"""Configuration of the test app."""

from __future__ import annotations

from django.apps import AppConfig


class TestsAppConfig(AppConfig):
    """The app of the tests."""

    name = "tests.app"
    label = "tests_app"
    default_auto_field = "django.db.models.BigAutoField"
