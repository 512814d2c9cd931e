"""The tests' own tools: the strict router, the databases that children reach."""

from __future__ import annotations

import json
import subprocess

import pytest
from django.contrib.auth.models import User
from django.db import connections

from django_workpool.models import Work
from testproject.routers import AliasNotNamedError, StrictRouter
from tests.app.models import Counter
from tests.children import child_environment, manage

COUNT = """
import json
from django.db import connections
from tests.app.models import Counter
names = {a: list(Counter.objects.using(a).values_list("name", flat=True))
         for a in connections}
print(json.dumps(names))
"""


def test_the_router_refuses_a_query_of_the_queue_without_an_alias() -> None:
    with pytest.raises(AliasNotNamedError, match="names no database"):
        Work.objects.count()


def test_the_router_refuses_a_new_row_of_the_queue_without_an_alias() -> None:
    with pytest.raises(AliasNotNamedError, match="names no database"):
        StrictRouter().db_for_write(Work, instance=Work())


def test_the_router_leaves_other_apps_alone() -> None:
    assert StrictRouter().db_for_read(User) is None


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_child_reaches_the_test_databases() -> None:
    for alias in connections:
        Counter.objects.using(alias).create(name=f"in {alias}")

    child = subprocess.run(
        manage("shell", "--no-imports", "--command", COUNT),
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    expected = {"default": ["in default"], "other": ["in other"]}
    assert expected == json.loads(child.stdout)
