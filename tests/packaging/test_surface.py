"""The public names of the package."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

import django_workpool

BARE_IMPORT = """
import sys
import django_workpool
from django.conf import settings

assert django_workpool.__version__
assert not settings.configured, "a setting was read"
models = [name for name in sys.modules if name.startswith("django_workpool.")]
assert models == [], models
assert "django.db.models" not in sys.modules
"""


def test_the_public_names_are_sorted() -> None:
    names = django_workpool.__all__

    assert sorted(set(names)) == names


@pytest.mark.parametrize("name", django_workpool.__all__)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(django_workpool, name)

    assert value.__module__.startswith("django_workpool.")
    assert name in dir(django_workpool)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Workpol'"):
        getattr(django_workpool, "Workpol")  # noqa: B009 -- unknown to type checkers


def test_the_version_is_that_of_the_metadata() -> None:
    assert version("django-workpool") == django_workpool.__version__


def test_importing_the_package_imports_no_model_and_reads_no_setting() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    del environment["DJANGO_SETTINGS_MODULE"]

    child = subprocess.run(
        [sys.executable, "-c", BARE_IMPORT],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (child.returncode, child.stderr)
