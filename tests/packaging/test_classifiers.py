"""What the metadata promises is what tox runs."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path

TOX = (Path(__file__).resolve().parent.parent.parent / "tox.ini").read_text()


def _classified(prefix: str) -> set[str]:
    found = metadata("django-workpool").get_all("Classifier") or []
    return {
        text.removeprefix(prefix)
        for text in found
        if re.fullmatch(rf"{re.escape(prefix)}\d+\.\d+", text)
    }


def _factors(prefix: str) -> set[str]:
    lists = re.findall(rf"\b{prefix}(?:\{{([\d,]+)\}}|(\d+))", TOX)
    numbers = {number for many, one in lists for number in (many or one).split(",")}
    return {f"{number[0]}.{number[1:]}" for number in numbers}


def test_the_python_classifiers_are_the_python_versions_of_tox() -> None:
    assert _factors("py") == _classified("Programming Language :: Python :: ")


def test_the_django_classifiers_are_the_django_versions_of_tox() -> None:
    assert _factors("django") == _classified("Framework :: Django :: ")
