"""The files of the built distributions."""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist: of the package run, or built here."""
    if built := os.environ.get("WORKPOOL_TEST_DIST"):
        return Path(built)
    folder = tmp_path_factory.mktemp("dist")
    list(WheelBuilder(str(ROOT)).build(directory=str(folder)))
    list(SdistBuilder(str(ROOT)).build(directory=str(folder)))
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> list[str]:
    """The names in the wheel."""
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def sdist(dist: Path) -> list[str]:
    """The names in the sdist, without its top folder."""
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


def test_the_wheel_holds_the_package_and_nothing_else(wheel: list[str]) -> None:
    folders = {name.partition("/")[0] for name in wheel}

    assert {"django_workpool", "django_workpool-0.1.0.dist-info"} == folders


@pytest.mark.parametrize(
    "name",
    [
        "django_workpool/py.typed",
        "django_workpool/migrations/__init__.py",
        "django_workpool/migrations/0001_initial.py",
        "django_workpool/management/commands/run_workpool.py",
        "django_workpool-0.1.0.dist-info/licenses/LICENSE",
    ],
)
def test_the_wheel_holds(wheel: list[str], name: str) -> None:
    assert name in wheel


def test_the_wheel_holds_every_module(wheel: list[str]) -> None:
    modules = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "django_workpool").rglob("*.py")
    }

    assert modules == {name for name in wheel if name.endswith(".py")}


def test_the_sdist_holds_what_tests_need(sdist: list[str]) -> None:
    needed = {"tests/conftest.py", "testproject/manage.py", "tox.ini", "LICENSE"}

    assert needed <= set(sdist)


def test_no_distribution_holds_a_database(wheel: list[str], sdist: list[str]) -> None:
    assert [] == [name for name in wheel + sdist if ".sqlite3" in name]
