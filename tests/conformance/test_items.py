"""Every item that this issue promises has a test that names it.

The tests are read, not run: a marker ``item("A7")`` on a test, on one of its parameters
or on its whole module counts.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS: Final = Path(__file__).resolve().parent.parent
PROMISED: Final = """
A1-A5, A7-A11, A13-A17; B1-B4, B6, B7, B9, B10, B12, B13; C1-C4, C6-C12, C14-C16;
D1-D9, D11, D13-D19; F1-F4, F7-F10; H1-H15, H17, H18; J1-J7, J9, J10, J13, J14, J16;
K1, K3-K6; L1-L8; M1-M4, M7-M9; N1-N6, N10-N13
"""


def expanded(text: str) -> list[str]:
    """Return the ids of a list like ``A1-A3, A7; B1``."""
    ids = []
    for part in re.split(r"[,;]", text):
        first, _, last = part.strip().partition("-")
        numbers = range(int(first[1:]), int((last or first)[1:]) + 1)
        ids += [f"{first[0]}{number}" for number in numbers]
    return ids


ITEMS: Final = expanded(PROMISED)


def _is_item_marker(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.item"


def _named(node: ast.AST) -> Iterator[str]:
    """Yield what the markers at or below *node* name."""
    for marker in filter(_is_item_marker, ast.walk(node)):
        texts = [part for part in ast.walk(marker) if isinstance(part, ast.Constant)]
        yield from (str(text.value) for text in texts)


def _tests(module: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]


def items_of(source: str) -> set[str]:
    """Return the items that the tests of one file name."""
    module = ast.parse(source)
    tests = _tests(module)
    found = {
        name
        for test in tests
        for decorator in test.decorator_list
        for name in _named(decorator)
    }
    marks = [
        node
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    if tests:
        found |= {name for node in marks for name in _named(node)}
    return found


def _sources() -> list[str]:
    return [path.read_text() for path in sorted(TESTS.rglob("test_*.py"))]


HELD: Final = {name for source in _sources() for name in items_of(source)}


@pytest.mark.parametrize("item", ITEMS)
def test_a_promised_item_has_a_test_that_names_it(item: str) -> None:
    assert item in HELD


def test_a_marker_names_ids_of_the_list() -> None:
    assert [] == sorted(name for name in HELD if not re.fullmatch(r"[A-Z]\d+", name))


def test_the_list_of_the_issue_is_read_as_it_is_meant() -> None:
    assert ["A1", "A2", "A3", "A7", "B12"] == expanded("A1-A3, A7; B12")
    assert 123 == len(ITEMS)
    assert len(ITEMS) == len(set(ITEMS))


def test_only_markers_of_tests_count() -> None:
    source = """
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.item("A1")]
unrelated = pytest.mark.item("A2")

@pytest.mark.item("A3", "A4")
def test_one(): ...

@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.item("A5")), "A6"])
async def test_two(n): ...

@pytest.mark.item("A7")
def helper(): ...

class TestThree:
    @pytest.mark.item("A8")
    def test_inside(self): ...
"""

    assert {"A1", "A3", "A4", "A5", "A8"} == items_of(source)
    assert set() == items_of('pytestmark = pytest.mark.item("A1")')
