"""M1 to M3, M7: which lines a pool's level shows, and what no line shows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from django_workpool import logs
from django_workpool.choices import LogLevel
from django_workpool.exceptions import InvalidOptionError
from django_workpool.models import Pool
from django_workpool.testing import drain, inline_executor, run_pass
from tests.app import functions, report_functions
from tests.conformance import lines
from tests.conformance.pools import fresh
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from django_workpool import Workpool
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])

ORDER = ["DEBUG", "INFO", "REPORT", "WARNING", "ERROR"]
SECRET = "a-secret-of-nobody-else"


def _run_all_endings(pool: Workpool) -> None:
    pool.enqueue_action(functions.add, {"a": 1})
    pool.enqueue_action(functions.fail)
    pool.enqueue_mutation(functions.effect)
    pool.cancel(pool.enqueue_action(functions.add, {"a": 2}))
    drain(pool.name)


def _run_with_a_late_completion(pool: Workpool) -> None:
    executor = inline_executor()
    pool.enqueue_action(functions.add, {"a": 1})
    run_pass(pool.name)
    (assignment,) = executor.fetch()
    ending = executor.execute(assignment)
    executor.finish(ending)
    executor.finish(ending)
    run_pass(pool.name)


@pytest.mark.item("M1")
@pytest.mark.parametrize("level", ORDER)
def test_a_level_wants_itself_and_what_is_above_it(level: str) -> None:
    wanted = [name for name in ORDER if logs.is_wanted(logs.LEVELS[name], level)]

    assert ORDER[ORDER.index(level) :] == wanted
    assert LogLevel.values == ORDER


@pytest.mark.item("M1")
@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("DEBUG", {"DEBUG", "INFO", "WARNING"}),
        ("INFO", {"INFO", "WARNING"}),
        ("REPORT", {"WARNING"}),
        ("WARNING", {"WARNING"}),
        ("ERROR", set()),
    ],
)
def test_a_pool_shows_its_level_and_what_is_above_it(
    level: str, shown: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    pool = fresh(log_level=level)

    _run_with_a_late_completion(pool)

    assert shown == {record.levelname for record in lines.ours(caplog)}


@pytest.mark.item("M1")
@pytest.mark.parametrize(("given", "stored"), [(n, n) for n in ORDER])
def test_each_level_is_accepted(given: str, stored: str) -> None:
    pool = fresh(log_level=given)

    pool.enqueue_action(functions.add, {"a": 1})

    assert stored == Pool.objects.using("default").get(pk=pool.name).log_level


@pytest.mark.item("M1")
def test_warn_means_warning_when_declared_and_when_updated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = fresh(log_level="WARN")
    pool.enqueue_action(functions.add, {"a": 1})
    drain(pool.name)
    stored = Pool.objects.using("default").get(pk=pool.name).log_level

    pool.update(log_level="INFO")
    pool.update(log_level="WARN")
    _run_with_a_late_completion(pool)

    assert "WARNING" == stored
    assert {"WARNING"} == {record.levelname for record in lines.ours(caplog)}


@pytest.mark.item("M1")
@pytest.mark.parametrize(
    "level",
    ["TRACE", "info", "CRITICAL", "", " INFO", 20, True, None, ["INFO"]],
    ids=str,
)
def test_another_level_is_refused_by_a_message_with_all_levels(level: object) -> None:
    pool = fresh()

    with pytest.raises(InvalidOptionError) as declared:
        fresh(log_level=level)
    with pytest.raises(InvalidOptionError) as updated:
        pool.update(log_level=level)

    assert str(declared.value) == str(updated.value)
    assert "DEBUG, INFO, REPORT, WARNING, ERROR" in str(declared.value)
    assert repr(level) in str(declared.value)
    assert not Pool.objects.using("default").filter(pk=pool.name).exists()


@pytest.mark.item("M2")
def test_at_the_default_level_no_event_is_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = fresh()

    with caplog.at_level(logging.DEBUG, logger="django_workpool"):
        _run_all_endings(pool)

    # The one that failed is told as an error; nothing is told of the others.
    assert [] == lines.events(caplog)
    assert [logging.ERROR] == [record.levelno for record in lines.ours(caplog)]


@pytest.mark.item("M3")
@pytest.mark.parametrize(
    ("level", "expected", "has_phases"),
    [
        ("DEBUG", {"enqueued", "started", "completed"}, True),
        ("INFO", {"enqueued", "started", "completed"}, False),
        ("REPORT", set(), False),
    ],
)
def test_each_level_has_its_lines(
    level: str,
    expected: set[str],
    has_phases: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = fresh(log_level=level)

    _run_all_endings(pool)

    assert expected == set(lines.names(caplog))
    assert has_phases == bool(lines.phase_lines(caplog))


@pytest.mark.item("M3")
def test_info_tells_every_work_once(caplog: pytest.LogCaptureFixture) -> None:
    pool = fresh(log_level="INFO")

    _run_all_endings(pool)

    # The canceled one never started.
    told = lines.names(caplog)
    assert [4, 3, 4] == [
        told.count(name) for name in ("enqueued", "started", "completed")
    ]


@pytest.mark.item("M3")
def test_a_changed_level_counts_from_the_next_work_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = fresh()
    pool.enqueue_action(functions.add, {"a": 1})
    drain(pool.name)

    pool.update(log_level="INFO")
    told = pool.enqueue_action(functions.add, {"a": 2})
    drain(pool.name)
    pool.update(log_level="ERROR")
    pool.enqueue_action(functions.add, {"a": 3})
    drain(pool.name)

    ids = [event["workId"] for event in lines.events(caplog)]
    assert [str(told.pk)] * 3 == ids


@pytest.mark.item("M3", "M7")
def test_a_running_runner_takes_a_new_level_and_keeps_secrets(
    live: Callable[..., LiveRunner],
) -> None:
    pool = fresh()
    runner = live("--verbosity", "3")
    silent = pool.enqueue_action(report_functions.confide, {"secret": SECRET})
    pool.wait(silent, timeout=30)

    pool.update(log_level="DEBUG")
    told = pool.enqueue_action(report_functions.confide, {"secret": SECRET})
    failed = pool.enqueue_action(report_functions.confide_and_fail, {"secret": SECRET})
    written = pool.enqueue_mutation(
        report_functions.confide_in_transaction, {"secret": SECRET}
    )
    ends = [pool.wait(work, timeout=30).completion_status for work in (told, failed)]
    pool.wait(written, timeout=30)
    until(
        lambda: runner.output.count('"event": "completed"') >= 3,
        "the three last events",
    )
    until(lambda: "phases {" in runner.output, "a line of the phase timers")

    assert ["success", "error"] == ends
    assert 0 == runner.stop()
    assert 3 == runner.output.count('"event": "started"')
    assert str(silent.pk) not in runner.output
    assert SECRET not in runner.output


@pytest.mark.item("M7")
def test_no_line_shows_a_secret_of_arguments_or_results(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = fresh(log_level="DEBUG")
    call = {"secret": SECRET}

    with caplog.at_level(logging.DEBUG):
        works = pool.enqueue_action_batch(report_functions.confide, [call, call])
        pool.enqueue_action(report_functions.confide_and_fail, call)
        pool.enqueue_mutation(report_functions.confide_in_transaction, call)
        pool.cancel(works[1])
        drain(pool.name)
        pool.explain(works[0])

    formatter = logging.Formatter()
    texts = [
        formatter.format(record) + str(record.__dict__) for record in caplog.records
    ]
    assert {"secret": SECRET} == pool.result(works[0]).return_value
    assert lines.phase_lines(caplog)
    assert [] == [text for text in texts if SECRET in text]
