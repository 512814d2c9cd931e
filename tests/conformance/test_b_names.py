"""Group B: the name of a pool, and its handle at module level."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from django_workpool import Workpool, options
from django_workpool.exceptions import InvalidOptionError
from django_workpool.models import Pool
from django_workpool.testing import drain
from tests.app import functions
from tests.children import child_environment
from tests.conformance.pools import fresh
from tests.conformance.tables import in_force, no_query

pytestmark = pytest.mark.django_db(databases=["default", "other"])

# At module level, as in a ``workpools`` module; without settings and without apps.
MODULE = """
import json, sys
from django_workpool import Workpool
pool = Workpool("imported", max_parallelism=3, using="default")
from django.apps import apps
from django.conf import settings
models = [name for name in sys.modules if name.startswith("django_workpool.models")]
print(json.dumps([repr(pool), models, settings.configured, apps.apps_ready]))
"""


@pytest.mark.item("B3")
@pytest.mark.parametrize(
    "name",
    ["", "x" * 64, "ü" * 32, "\U0001f600" * 16, "x" * 10_000, "\ud800", None, 7, b"x"],
    ids=lambda name: repr(name)[:12],
)
def test_an_empty_or_too_long_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Workpool(name)

    assert ("name", name) == (caught.value.option, caught.value.value)
    assert repr(name) in str(caught.value)
    assert "1 to 63 bytes in UTF-8" in str(caught.value)
    assert name not in options.declared()


@pytest.mark.item("B3")
@pytest.mark.parametrize(
    "name", [" x", "x ", "\t", "a\nb", "a\x00b", "\u2028"], ids=repr
)
def test_a_name_that_people_could_not_read_is_refused(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="control characters"):
        Workpool(name)

    assert name not in options.declared()


@pytest.mark.item("B3")
@pytest.mark.parametrize(
    "name",
    ["x" * 63, "ü" * 31 + "x", "\U0001f600" * 15 + "xyz", "*", "%s", "'; DROP", "_"],
    ids=lambda name: repr(name)[:12],
)
def test_a_name_of_63_bytes_and_any_other_sign_is_accepted(name: str) -> None:
    pool = Workpool(name)

    work = pool.enqueue_action(functions.add, {"a": 1})
    drain(name)

    assert 2 == pool.result(work).return_value
    assert name == in_force(pool)["name"]


@pytest.mark.item("B3")
def test_names_that_only_look_alike_are_different_pools() -> None:
    names = ["Mail", "mail", "máil", "ma\u0301il", "mail.", "mai_", "mai%"]
    pools = [Workpool(name) for name in names]

    works = [pool.enqueue_action(functions.add, {"a": 1}) for pool in pools]

    assert [1] * len(names) == [pool.queue_length() for pool in pools]
    found = [pool.status_batch(works) for pool in pools]
    assert [len(names) - 1] * len(names) == [each.count(None) for each in found]


@pytest.mark.item("B4")
def test_a_pool_at_module_level_makes_no_query_and_imports_no_model() -> None:
    child = subprocess.run(
        [sys.executable, "-c", MODULE],
        env=child_environment(DJANGO_SETTINGS_MODULE=""),
        capture_output=True,
        text=True,
        check=True,
    )
    with no_query():
        again = fresh(max_parallelism=3, status_ttl=None, log_level="WARN")

    assert ["Workpool('imported')", [], False, False] == json.loads(child.stdout)
    assert not Pool.objects.using("default").filter(pk=again.name).exists()
