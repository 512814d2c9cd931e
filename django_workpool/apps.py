"""Configuration of the app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class WorkpoolConfig(AppConfig):
    """The app ``workpool``."""

    name = "django_workpool"
    label = "workpool"
    verbose_name = _("Work pools")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the functions and pools in the ``workpools`` modules of all apps."""
        from django_workpool import registry

        registry.autodiscover()
