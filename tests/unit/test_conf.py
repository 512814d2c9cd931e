"""Settings: their order, types, refusals and cache."""

from __future__ import annotations

import os
import tempfile
from dataclasses import FrozenInstanceError, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_workpool import conf
from django_workpool.conf import Settings, get_settings, unknown_settings
from django_workpool.exceptions import WorkpoolConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import Settings as DjangoSettings

VARIABLES = [f"WORKPOOL_{spec.name.upper()}" for spec in fields(Settings)]


@pytest.fixture(autouse=True)
def _nothing_set(
    monkeypatch: pytest.MonkeyPatch, settings: DjangoSettings
) -> Iterator[None]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in filter(lambda name: hasattr(settings, name), VARIABLES):
        delattr(settings, name)
    get_settings.cache_clear()

    yield

    get_settings.cache_clear()


def test_defaults_hold_where_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")

    assert get_settings() == Settings(
        state_dir=f"/run/user/7/django-workpool-{os.getuid()}",
        allow_failpoints=False,
        pools=(),
        processes=1,
        threads=None,
        coroutines=1000,
        shutdown_timeout=timedelta(seconds=30),
        drain=False,
        loop=True,
        workers=True,
    )


def test_state_dir_is_in_the_temporary_directory_without_a_runtime_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)

    parent = Path(get_settings().state_dir).parent

    assert parent == Path(tempfile.gettempdir())


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("STATE_DIR", "/srv/state", "/srv/state"),
        ("STATE_DIR", Path("/srv/state"), "/srv/state"),
        ("ALLOW_FAILPOINTS", True, True),
        ("POOLS", ["emails", " scrape "], ("emails", "scrape")),
        ("POOLS", (), ()),
        ("PROCESSES", 3, 3),
        ("THREADS", 8, 8),
        ("THREADS", None, None),
        ("COROUTINES", 1, 1),
        ("SHUTDOWN_TIMEOUT", 5, timedelta(seconds=5)),
        ("SHUTDOWN_TIMEOUT", 0.5, timedelta(seconds=0.5)),
        ("SHUTDOWN_TIMEOUT", 0, timedelta(0)),
        ("SHUTDOWN_TIMEOUT", timedelta(minutes=1), timedelta(minutes=1)),
        ("DRAIN", True, True),
        ("LOOP", False, False),
        ("WORKERS", False, False),
    ],
)
def test_a_django_setting_counts(
    settings: DjangoSettings, name: str, value: object, expected: object
) -> None:
    setattr(settings, f"WORKPOOL_{name}", value)

    assert getattr(get_settings(), name.lower()) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("STATE_DIR", "/srv/state", "/srv/state"),
        ("ALLOW_FAILPOINTS", "true", True),
        ("POOLS", "emails, scrape,", ("emails", "scrape")),
        ("POOLS", "", ()),
        ("PROCESSES", "3", 3),
        ("THREADS", "8", 8),
        ("THREADS", "", None),
        ("COROUTINES", "1", 1),
        ("SHUTDOWN_TIMEOUT", "2.5", timedelta(seconds=2.5)),
        ("DRAIN", "1", True),
        ("DRAIN", "Yes", True),
        ("LOOP", "off", False),
        ("WORKERS", "0", False),
    ],
)
def test_an_environment_variable_counts_with_the_type_of_its_field(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: object
) -> None:
    monkeypatch.setenv(f"WORKPOOL_{name}", text)

    assert getattr(get_settings(), name.lower()) == expected


def test_the_django_setting_beats_the_environment(
    monkeypatch: pytest.MonkeyPatch, settings: DjangoSettings
) -> None:
    monkeypatch.setenv("WORKPOOL_PROCESSES", "3")
    settings.WORKPOOL_PROCESSES = 2

    assert get_settings().processes == 2


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("STATE_DIR", "", "path of a directory"),
        ("STATE_DIR", 7, "path of a directory"),
        ("ALLOW_FAILPOINTS", 1, "True or False"),
        ("ALLOW_FAILPOINTS", "yes", "True or False"),
        ("POOLS", "emails", "list of pool names"),
        ("POOLS", ["emails", ""], "list of pool names"),
        ("POOLS", [7], "list of pool names"),
        ("POOLS", None, "list of pool names"),
        ("PROCESSES", 0, "at least 1"),
        ("PROCESSES", True, "at least 1"),
        ("PROCESSES", 1.0, "at least 1"),
        ("PROCESSES", "3", "at least 1"),
        ("PROCESSES", None, "at least 1"),
        ("THREADS", -1, "at least 1"),
        ("COROUTINES", 0, "at least 1"),
        ("SHUTDOWN_TIMEOUT", -1, "from 0"),
        ("SHUTDOWN_TIMEOUT", timedelta(seconds=-1), "from 0"),
        ("SHUTDOWN_TIMEOUT", timedelta.max, "from 0"),
        ("SHUTDOWN_TIMEOUT", float("nan"), "from 0"),
        ("SHUTDOWN_TIMEOUT", float("inf"), "from 0"),
        ("SHUTDOWN_TIMEOUT", 10**12, "from 0"),
        ("SHUTDOWN_TIMEOUT", True, "from 0"),
        ("SHUTDOWN_TIMEOUT", "30", "from 0"),
        ("SHUTDOWN_TIMEOUT", None, "from 0"),
        ("DRAIN", None, "True or False"),
    ],
)
def test_a_bad_setting_is_refused_with_its_name_value_and_a_hint(
    settings: DjangoSettings, name: str, value: object, hint: str
) -> None:
    setattr(settings, f"WORKPOOL_{name}", value)

    with pytest.raises(WorkpoolConfigError, match=hint) as caught:
        get_settings()

    assert caught.value.setting == f"WORKPOOL_{name}"
    assert caught.value.value is value
    assert f"WORKPOOL_{name}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PROCESSES", "many"),
        ("PROCESSES", "0"),
        ("THREADS", "1.5"),
        ("SHUTDOWN_TIMEOUT", "5m"),
        ("SHUTDOWN_TIMEOUT", "nan"),
        ("DRAIN", "perhaps"),
        ("LOOP", "2"),
        ("STATE_DIR", "$WORKPOOL_NO_SUCH_VARIABLE"),
    ],
)
def test_a_bad_variable_is_refused_with_its_name_and_text(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(f"WORKPOOL_{name}", text)

    with pytest.raises(WorkpoolConfigError, match=f"WORKPOOL_{name}") as caught:
        get_settings()

    assert caught.value.value == text


def test_settings_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = get_settings()
    monkeypatch.setenv("WORKPOOL_PROCESSES", "3")

    assert get_settings() is first


def test_settings_follow_override_settings() -> None:
    before = get_settings().processes

    with override_settings(WORKPOOL_PROCESSES=4):
        inside = get_settings().processes

    assert (1, 4, 1) == (before, inside, get_settings().processes)


def test_a_change_of_foreign_settings_keeps_the_cache() -> None:
    first = get_settings()

    with override_settings(USE_TZ=False):
        inside = get_settings()

    assert inside is first


def test_settings_cannot_be_changed() -> None:
    field: Any = "processes"

    with pytest.raises(FrozenInstanceError):
        setattr(get_settings(), field, 2)


def test_every_setting_has_a_docstring() -> None:
    source = Path(conf.__file__).read_text()
    body = source.partition("class Settings:")[2].partition("@functools")[0]

    assert body.count('    """') == 1 + len(fields(Settings))


def test_an_unknown_setting_is_reported_with_the_nearest_name(
    settings: DjangoSettings,
) -> None:
    settings.WORKPOOL_PROCESS = 2
    settings.WORKPOOL_PROCESSES = 2

    assert unknown_settings() == {"WORKPOOL_PROCESS": "WORKPOOL_PROCESSES"}


def test_variables_that_are_no_settings_do_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORKPOOL_FAILPOINTS", "pass.before_commit")
    monkeypatch.setenv("WORKPOOL_TEST_POSTGRES_URL", "postgres://nobody@nowhere/none")

    assert unknown_settings() == {}
    assert get_settings() == Settings()
