"""Failpoints: their names, their grammar, and what each action does."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import django_workpool
from django_workpool import failpoints
from django_workpool.failpoints import NAMES, arm, failpoint, parse
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(django_workpool.__file__).parent
POINT = "pass.locked"
CHILD = """
from django_workpool.failpoints import arm, failpoint

arm("runner", is_allowed=True)
failpoint("pass.locked")
print("came through")
"""


@pytest.fixture(autouse=True)
def _disarmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave no point armed in this process."""
    monkeypatch.delenv("WORKPOOL_FAILPOINTS", raising=False)
    yield
    monkeypatch.undo()
    arm("runner", is_allowed=False)


def _armed(monkeypatch: pytest.MonkeyPatch, text: str, role: str = "runner") -> None:
    monkeypatch.setenv("WORKPOOL_FAILPOINTS", text)
    arm(role, is_allowed=True)


def _called(source: str) -> list[ast.expr]:
    return [
        call.args[0]
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) in {"failpoint", "failpoints.failpoint"}
    ]


def test_the_names_are_those_of_the_calls_in_the_code() -> None:
    sources = [path.read_text() for path in sorted(PACKAGE.rglob("*.py"))]

    calls = [name for source in sources for name in _called(source)]

    assert set(NAMES) == {ast.literal_eval(name) for name in calls}


@pytest.mark.parametrize("role", ["runner", "worker"])
def test_a_point_without_a_role_is_for_every_process(role: str) -> None:
    points = parse(f"{POINT}=twice", role)

    assert {POINT} == set(points)


def test_every_part_of_the_grammar_is_read() -> None:
    (point,) = parse(f"{POINT}=sleep:0.5*3%0.25@worker", "worker").values()

    assert ("sleep", "0.5", 3, 0.25) == (
        point.action,
        point.argument,
        point.skip,
        point.probability,
    )


def test_what_is_not_given_has_its_default() -> None:
    (point,) = parse(f"{POINT}=kill", "runner").values()

    assert ("kill", "", 0, 1.0) == (
        point.action,
        point.argument,
        point.skip,
        point.probability,
    )


def test_points_are_separated_by_commas_and_blanks_do_not_count() -> None:
    points = parse(f" {POINT}=kill , fetch.after=raise:builtins.OSError, ", "worker")

    assert {POINT, "fetch.after"} == set(points)


def test_a_point_of_another_role_is_left_out() -> None:
    assert {} == parse(f"{POINT}=kill@worker", "runner")


@pytest.mark.parametrize(
    "text", ["pass.unlocked=kill", f"{POINT}=explode", POINT, f"{POINT}=", "=kill"]
)
def test_an_unknown_name_or_action_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="No failpoint or action") as refused:
        parse(text, "runner")

    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", [f"{POINT}=kill*often", f"{POINT}=kill%often"])
def test_a_skip_or_a_probability_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="often"):
        parse(text, "runner")


def test_nothing_is_armed_without_the_variable() -> None:
    arm("runner", is_allowed=True)

    assert "" == failpoint(POINT)


def test_nothing_is_armed_unless_the_settings_allow_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORKPOOL_FAILPOINTS", f"{POINT}=raise:builtins.OSError")

    arm("runner", is_allowed=False)

    assert "" == failpoint(POINT)


def test_arming_again_forgets_what_was_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    _armed(monkeypatch, f"{POINT}=twice")

    _armed(monkeypatch, "fetch.after=twice")

    assert ["", "twice"] == [failpoint(POINT), failpoint("fetch.after")]


def test_only_the_named_point_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    _armed(monkeypatch, f"{POINT}=raise:builtins.OSError")

    assert "" == failpoint("pass.before_commit")


def test_the_first_visits_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    _armed(monkeypatch, f"{POINT}=twice*2")

    assert ["", "", "twice", "twice"] == [failpoint(POINT) for _ in range(4)]


@pytest.mark.parametrize(("probability", "expected"), [("0", ""), ("1", "twice")])
def test_a_probability_decides_each_visit(
    probability: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _armed(monkeypatch, f"{POINT}=twice%{probability}")

    assert {expected} == {failpoint(POINT) for _ in range(50)}


def test_a_probability_between_lets_some_visits_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _armed(monkeypatch, f"{POINT}=twice%0.5")

    assert {"", "twice"} == {failpoint(POINT) for _ in range(500)}


def test_twice_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    _armed(monkeypatch, f"{POINT}=twice")

    assert failpoints.TWICE == failpoint(POINT)


@pytest.mark.parametrize(
    ("dotted", "error"),
    [
        ("builtins.OSError", OSError),
        ("django.db.OperationalError", None),
    ],
)
def test_raise_raises_what_is_named(
    dotted: str, error: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _armed(monkeypatch, f"{POINT}=raise:{dotted}")

    with pytest.raises(error or Exception, match=dotted) as raised:
        failpoint(POINT)

    assert dotted.rpartition(".")[2] == raised.type.__name__


def test_sleep_waits_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    _armed(monkeypatch, f"{POINT}=sleep:0.05")
    began = time.monotonic()

    failpoint(POINT)

    assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize(
    ("action", "name"), [("wait:here", "here"), ("wait", POINT)], ids=["named", "bare"]
)
def test_wait_is_a_rendezvous(
    action: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKPOOL_FAILPOINTS_DIR", str(tmp_path))
    _armed(monkeypatch, f"{POINT}={action}")
    thread = threading.Thread(target=failpoint, args=[POINT])

    thread.start()
    until((tmp_path / f"{name}.reached").exists, "the point to be reached")
    waits = thread.is_alive()
    (tmp_path / f"{name}.go").touch()
    thread.join(30)

    assert waits
    assert not thread.is_alive()


def _child(action: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "WORKPOOL_FAILPOINTS": f"{POINT}={action}",
        },
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("action", "code", "output"),
    [
        ("kill", -signal.SIGKILL, ""),
        ("exit:7", 7, ""),
        ("kill*1", 0, "came through\n"),
    ],
)
def test_a_process_ends_at_the_point(action: str, code: int, output: str) -> None:
    child = _child(action)

    printed, _ = child.communicate(timeout=30)

    assert (code, output) == (child.returncode, printed)


def test_a_process_stops_at_the_point_until_it_is_continued() -> None:
    child = _child("stop")

    _, status = os.waitpid(child.pid, os.WUNTRACED)
    child.send_signal(signal.SIGCONT)
    printed, _ = child.communicate(timeout=30)

    assert signal.SIGSTOP == os.WSTOPSIG(status)
    assert (0, "came through\n") == (child.returncode, printed)
