"""Settings of the tests: two databases, a router that refuses to guess.

``WORKPOOL_TEST_DATABASE_URL`` names a server (unset: SQLite files), and Django makes
its test databases there.  A process that a test starts gets the URLs of these test
databases themselves, the second in ``WORKPOOL_TEST_OTHER_URL``, and uses them as they
are: see ``tests.children``.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from testproject.databases import database
from testproject.settings import *  # noqa: F403 -- the usual way to extend settings
from testproject.settings import INSTALLED_APPS, env

# Made and removed by tests/conftest.py.  Named after the process, so that two runs on
# one machine never share a database.
SCRATCH = Path(tempfile.gettempdir()) / f"workpool-tests-{os.getpid()}"


def _test_database(alias: str, *variables: str) -> dict[str, Any]:
    scratch = SCRATCH / f"{alias}.sqlite3"
    urls = [env.str(variable, default="") for variable in variables]
    config = database(next(filter(None, urls), f"sqlite:///{scratch}"))
    if config["ENGINE"] == "django.db.backends.postgresql":
        config["ENGINE"] = "testproject.postgresql_tests"
    # SQLite would keep an unnamed test database in memory.
    on_sqlite = config["ENGINE"] == "django.db.backends.sqlite3"
    name = str(scratch) if on_sqlite else f"workpool_test_{os.getpid()}_{alias}"
    return {**config, "TEST": {"NAME": name}}


DEBUG = False
INSTALLED_APPS = [*INSTALLED_APPS, "tests.app"]
DATABASES = {
    "default": _test_database("default", "WORKPOOL_TEST_DATABASE_URL"),
    "other": _test_database(
        "other", "WORKPOOL_TEST_OTHER_URL", "WORKPOOL_TEST_DATABASE_URL"
    ),
}
DATABASE_ROUTERS = ["testproject.routers.StrictRouter"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
WORKPOOL_ALLOW_FAILPOINTS = True
