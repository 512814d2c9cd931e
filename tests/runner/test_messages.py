"""What a runner says: once, with what to do."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from django_workpool.models import PendingStart, Work
from tests.app import functions
from tests.children import child_environment, manage
from tests.conformance.pools import fresh
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def _forget(work: Work) -> None:
    """Let a work be of a function that nobody has."""
    handle = "app.of.tomorrow"
    Work.objects.using("default").filter(pk=work.pk).update(fn_handle=handle)
    rows = PendingStart.objects.using("default").filter(work_id=work.pk)
    rows.update(fn_handle=handle)


def test_a_function_that_no_worker_knows_is_named_once(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh()
    _forget(pool.enqueue_action(functions.echo))
    runner = live()

    line = runner.wait_line("no worker knows this function")
    pool.wait(pool.enqueue_action(functions.echo), 30)

    assert "app.of.tomorrow" in line
    assert "workpools.py" in line
    assert 1 == runner.output.count("app.of.tomorrow")


def test_a_drain_names_what_it_leaves(live: Callable[..., LiveRunner]) -> None:
    pool = fresh()
    pool.pause()
    pool.enqueue_action_batch(functions.echo, [{}, {}])

    runner = live("--drain", ready=False)

    assert 0 == runner.wait(), runner.output
    assert f"2 works of pool '{pool.name}' cannot start now" in runner.output


def test_a_stop_says_how_long_it_waits_and_its_end_is_the_recorded_cause(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    runner = live("--shutdown-timeout", "0.2")
    held = pool.enqueue_action(functions.hold)
    journal.wait_begun()

    code = runner.stop()

    assert 1 == code
    assert "running works may end within 0.2 s" in runner.output
    assert "ends its workers: not done within 0.2 s of its stop" in runner.output
    until(lambda: pool.status(held).kind == "completed", "the record of the lost work")
    assert "ended by its runner: not done within 0.2 s" in pool.result(held).error


def test_a_second_signal_ends_everything_now(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    pool = fresh()
    runner = live()
    held = pool.enqueue_action(functions.hold)
    journal.wait_begun()

    runner.terminate()
    runner.wait_line("run_workpool stopping")
    code = runner.stop()

    assert 1 == code
    assert "ended by its runner: a second signal" in pool.result(held).error


def test_a_pool_that_is_not_there_is_pointed_out(
    live: Callable[..., LiveRunner],
) -> None:
    runner = live("--pools", "nobody")

    assert "there is no pool 'nobody' yet" in runner.output


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["--no-loop", "--no-workers"], {}, "leaves nothing to do"),
        (["--no-loop", "--drain"], {}, "--drain needs the loop"),
        (["--database", "nowhere"], {}, "The aliases are: default, other"),
        (["--threads", "0"], {}, "not a whole number from 1 to 1000"),
        (["--pools", ","], {}, "give names of pools"),
        (["--shutdown-timeout", "soon"], {}, "not a number of seconds"),
        ([], {"WORKPOOL_PROCESSES": "many"}, "WORKPOOL_PROCESSES"),
    ],
)
def test_a_command_line_that_cannot_be_ends_in_one_clear_line(
    arguments: list[str], variables: dict[str, str], message: str
) -> None:
    done = subprocess.run(
        manage("run_workpool", *arguments),
        env=child_environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert 0 != done.returncode
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_runner_without_anywhere_to_print_works_on(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    """B7 of the fault table."""
    pool = fresh()
    work = pool.enqueue_action(functions.echo)
    process = subprocess.run(  # noqa: S602 -- a closed stdout needs a shell
        " ".join([*manage("run_workpool", "--drain"), ">&-"]),
        env=child_environment(),
        shell=True,
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert 0 == process.returncode, process.stderr
    assert "success" == pool.result(work).kind
