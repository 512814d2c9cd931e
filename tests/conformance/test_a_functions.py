"""Group A: which functions may be enqueued, and that no other is ever called."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from django_workpool import action
from django_workpool.choices import CompletionStatus, WorkerState, WorkKind
from django_workpool.exceptions import InvalidOptionError, NotRegisteredError
from django_workpool.models import PendingStart, Work, Worker
from django_workpool.registry import known_handles
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions
from tests.app.enqueue_functions import Desk, describes, greet, look
from tests.children import child_environment, manage
from tests.conformance.pools import fresh
from tests.conformance.tables import no_query, nothing_written
from tests.journal import ids, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from django_workpool import Workpool
    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])
# What is refused never comes to a commit, so these need no flush.
IN_A_TRANSACTION = pytest.mark.django_db(databases=["default", "other"])
MODULE = "tests.app.enqueue_functions"
TRAP = "workpool_trap"
HANDLES = """
import json
from django_workpool import registry
print(json.dumps(registry.known_handles()))
"""


def enclosing() -> Callable[[], None]:
    """Return a decorated nested function."""

    @action
    def nested() -> None: ...

    return nested


UNREGISTERED = {
    "lambda": (lambda: None, f"{__name__}.<lambda>"),
    "decorated lambda": (action(lambda: None), f"{__name__}.<lambda>"),
    "nested": (enclosing(), f"{__name__}.enclosing.<locals>.nested"),
    "method": (Desk.write, f"{MODULE}.Desk.write"),
    "bound method": (Desk().write, f"{MODULE}.Desk.write"),
    "partial": (functools.partial(greet, "Ada"), f"{MODULE}.greet"),
    "undecorated": (describes, f"{MODULE}.describes"),
    "builtin": (os.getcwd, "posix.getcwd"),
    "name": (f"{MODULE}.greet", f"{MODULE}.greet"),
    "class": (Desk, f"{MODULE}.Desk"),
    "nothing": (None, "builtins.NoneType object"),
}


@pytest.mark.item("A13")
@IN_A_TRANSACTION
@pytest.mark.parametrize(("fn", "name"), UNREGISTERED.values(), ids=UNREGISTERED.keys())
@pytest.mark.parametrize(
    "method",
    [
        "enqueue_action",
        "enqueue_mutation",
        "enqueue_action_batch",
        "enqueue_mutation_batch",
    ],
)
def test_what_is_not_registered_is_refused_with_the_nearest_known_names(
    fn: Any, name: str, method: str
) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(NotRegisteredError) as caught:
        getattr(pool, method)(fn, [])

    error = caught.value
    assert name == error.handle
    assert repr(name) in str(error)
    assert 3 == len(error.close_matches)
    assert set(error.close_matches) <= set(known_handles())
    assert error.close_matches[0] in str(error)
    assert "@action" in str(error)


@pytest.mark.item("A13")
@IN_A_TRANSACTION
def test_a_function_that_lacks_its_decorator_is_told_the_name_beside_it() -> None:
    with pytest.raises(NotRegisteredError) as caught:
        fresh().enqueue_action(describes)

    assert f"{MODULE}.describe" == caught.value.close_matches[0]


@pytest.mark.item("A14")
@IN_A_TRANSACTION
@pytest.mark.parametrize(
    ("method", "fn", "kind"),
    [
        ("enqueue_action", functions.effect, "mutation"),
        ("enqueue_action", look, "query"),
        ("enqueue_mutation", functions.add, "action"),
        ("enqueue_mutation", functions.async_echo, "action"),
        ("enqueue_mutation", look, "query"),
        ("enqueue_action_batch", functions.effect, "mutation"),
        ("enqueue_mutation_batch", functions.add, "action"),
    ],
)
def test_a_function_of_another_kind_than_the_method_is_refused(
    method: str, fn: Callable[..., Any], kind: str
) -> None:
    pool = fresh()

    with nothing_written(), pytest.raises(InvalidOptionError) as caught:
        getattr(pool, method)(fn, [])

    assert f"{fn.__module__}.{fn.__name__}" == caught.value.value
    assert fn.__name__ in str(caught.value)
    assert f"registered as {kind}" in str(caught.value)
    assert f"enqueue_{kind}" in str(caught.value)


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a module that can be imported, here and in children, and tells of it."""
    sprung = tmp_path / "sprung"
    folder = tmp_path / "modules"
    folder.mkdir()
    line = f"__import__('pathlib').Path({str(sprung)!r}).touch()\n"
    code = f"{line}\n\ndef fire(**_values):\n    {line}"
    (folder / f"{TRAP}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    return sprung


def forge(pool: Workpool, work: Work, handle: str) -> UUID:
    """Change the function of a pending work, as no method of ours would."""
    arguments = json.dumps({"args": [], "kwargs": {"command": "true"}})
    Work.objects.using("default").filter(pk=work.pk).update(
        fn_handle=handle, fn_args=arguments
    )
    PendingStart.objects.using("default").filter(work_id=work.pk).update(
        fn_handle=handle
    )
    return work.pk


FORGED = ["os.system", f"{TRAP}.fire", f"{MODULE}.describes", "nowhere.at_all", ""]


@pytest.mark.item("A15")
@IN_A_TRANSACTION
@pytest.mark.parametrize("handle", FORGED)
def test_a_stored_name_that_nobody_registered_waits_while_its_neighbors_run(
    handle: str, trap: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(os, "system", called.append)
    pool = fresh(max_parallelism=1)
    before, forged, after = pool.enqueue_action_batch(functions.add, [{"a": 1}] * 3)
    forge(pool, forged, handle)

    drain(pool.name)

    assert ids([before, after]) == journal.begins(pool.name)
    assert WorkKind.PENDING == pool.status(forged).kind
    assert "known_function" in pool.explain(forged).failed
    assert not called
    assert TRAP not in sys.modules
    assert not trap.exists()


@pytest.mark.item("A15")
@IN_A_TRANSACTION
@pytest.mark.parametrize("handle", FORGED)
def test_a_worker_that_was_given_such_a_name_calls_nothing_and_ends_the_work(
    handle: str, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setattr(os, "system", called.append)
    pool = fresh()
    work = pool.enqueue_action(functions.add, {"a": 1})
    run_pass(pool.name)
    executor = inline_executor()
    (assignment,) = executor.fetch()

    executor.finish(executor.execute(replace(assignment, fn_handle=handle)))
    run_pass(pool.name)

    result = pool.result(work)
    assert (CompletionStatus.ERROR, "NotRegisteredError") == (
        result.kind,
        result.error_type,
    )
    assert not called
    assert TRAP not in sys.modules
    assert not trap.exists()


@pytest.mark.item("A15")
def test_a_live_runner_neither_imports_nor_calls_such_a_name(
    live: Callable[..., LiveRunner], trap: Path, journal: Journal
) -> None:
    pool = fresh(max_parallelism=1)
    before, forged, system, after = pool.enqueue_action_batch(
        functions.add, [{"a": 1}] * 4
    )
    forge(pool, forged, f"{TRAP}.fire")
    forge(pool, system, "os.system")

    runner = live()
    pool.wait(before, timeout=30)
    pool.wait(after, timeout=30)

    assert ids([before, after]) == journal.begins(pool.name)
    assert 2 == pool.queue_length()
    assert 0 == runner.stop()
    assert not trap.exists()


@pytest.mark.item("A16")
def test_a_shell_knows_the_functions_of_every_installed_app() -> None:
    shell = subprocess.run(
        manage("shell", "--no-imports", "--command", HANDLES),
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    handles = json.loads(shell.stdout)
    assert "thread" == handles["tests.app.functions.add"]
    assert "coroutine" == handles["tests.app.functions.async_echo"]
    assert "thread" == handles["demo.workpools.send_verification"]


@pytest.mark.item("A16")
def test_the_workers_of_a_runner_know_the_functions_of_every_installed_app(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh()
    runner = live()
    ready = Worker.objects.using("default").filter(state=WorkerState.READY)
    until(ready.exists, "a worker to be ready")

    work = pool.enqueue_action(functions.add, {"a": 1})
    pool.wait(work, timeout=30)

    handles = json.loads(ready.get().handles)
    assert "tests.app.functions.add" in handles
    assert "demo.workpools.send_verification" in handles
    assert 2 == pool.result(work).return_value
    assert f"functions {len(handles)}" in runner.wait_line("functions")


@pytest.mark.item("A17")
@IN_A_TRANSACTION
def test_a_direct_call_is_a_plain_call_without_a_query(journal: Journal) -> None:
    with no_query():
        results = [
            Desk().write(),
            look(),
            plain("Ada", marks=2),
        ]

    assert [None, None, "Ada!!"] == results
    assert [] == journal.lines()


def plain(name: str, *, marks: int = 1) -> str:
    """Say it."""
    return f"{name}{'!' * marks}"


@pytest.mark.item("A17")
@IN_A_TRANSACTION
def test_the_decorator_returns_the_very_function_with_its_errors() -> None:
    assert plain is action(plain)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nobody'"):
        greet(nobody=1)  # type: ignore[call-arg]
