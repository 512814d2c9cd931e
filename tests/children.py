"""Processes that tests start: ``manage.py`` commands on the test databases."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connections

ROOT = Path(__file__).resolve().parent.parent
MANAGE = ROOT / "testproject" / "manage.py"


def database_url(alias: str) -> str:
    """Return the URL of a test database, in the form that the settings read."""
    config: dict[str, Any] = connections[alias].settings_dict
    name = str(config["NAME"])
    if connections[alias].vendor == "sqlite":
        return f"sqlite:///{quote(name)}"
    user = quote(config["USER"], safe="")
    password = f":{quote(config['PASSWORD'], safe='')}" if config["PASSWORD"] else ""
    port = f":{config['PORT']}" if config["PORT"] else ""
    host = str(config["HOST"])
    if host.startswith("/"):  # a socket directory stands in the path
        return f"postgres://{user}{password}@{port}/{quote(host)}/{quote(name)}"
    return f"postgres://{user}{password}@{host}{port}/{quote(name)}"


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment with which a process reaches the test databases."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "testproject.test_settings",
        "PYTHONUNBUFFERED": "1",
        "WORKPOOL_TEST_DATABASE_URL": database_url("default"),
        "WORKPOOL_TEST_OTHER_URL": database_url("other"),
        **variables,
    }


def manage(*arguments: str) -> list[str]:
    """Return the command line of a management command."""
    return [sys.executable, str(MANAGE), *arguments]
