"""The demo as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """Three pools, three functions and one web page."""

    name = "demo"
    default_auto_field = "django.db.models.BigAutoField"
