"""Overrides and what takes them back; handles of one name."""

from __future__ import annotations

import pytest

from django_workpool import DECLARED, InvalidOptionError, Workpool
from tests.app import functions
from tests.conformance.pools import fresh

pytestmark = pytest.mark.django_db(databases=["default", "other"])


def test_an_override_can_be_seen_and_taken_back() -> None:
    pool = fresh(max_parallelism=7)
    pool.update(max_parallelism=2, log_level="INFO")

    before = pool.diagnostics()
    pool.update(max_parallelism=DECLARED)
    after = pool.diagnostics()

    assert (2, {"max_parallelism": 2, "log_level": "INFO"}) == (
        before.max_parallelism,
        before.overrides,
    )
    assert (7, {"log_level": "INFO"}) == (after.max_parallelism, after.overrides)
    assert "DECLARED" == repr(DECLARED)


def test_declared_is_no_option_by_itself() -> None:
    pool = fresh()

    with pytest.raises(InvalidOptionError, match="no_option"):
        pool.update(no_option=DECLARED)


def test_a_later_handle_on_another_database_leaves_the_earlier_ones() -> None:
    pool = fresh()
    elsewhere = Workpool(pool.name, using="other")
    here = Workpool(pool.name, using="default")

    assert ("other", "default") == (elsewhere.alias, here.alias)
    assert "other" == pool.alias


def test_arguments_beside_the_mapping_are_explained() -> None:
    pool = fresh()

    with pytest.raises(InvalidOptionError, match=r"enqueue_…\(fn, \{'value': …\}\)"):
        pool.enqueue_action(functions.echo, value=1)
