"""What the demo proves, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo import journal
from demo.load import counter_value
from demo.models import Weather
from demo.workpools import LIMITS

if TYPE_CHECKING:
    from pathlib import Path

    from demo.load import Load
    from demo.servers import MailServer, WeatherServer


@dataclass(frozen=True, kw_only=True)
class Check:
    """One promise and whether it was kept.

    Attributes:
        passed: Whether it was.
        text: What was found, against what was expected.
    """

    passed: bool
    text: str


def check_all(
    load: Load, *, mail: MailServer, weather: WeatherServer, journal_path: Path
) -> list[Check]:
    """Ask every witness: the database, the journal and both servers."""
    return [
        _success(load),
        _mails(load, mail),
        *_limits(load, journal_path),
        _begins(load, journal_path),
        _scrapes(load, weather),
        _counter(load),
    ]


def _success(load: Load) -> Check:
    good = sum(tally["success"] for tally in load.statuses.values())
    return Check(
        passed=good == load.total, text=f"works: {good} of {load.total} succeeded"
    )


def _mails(load: Load, mail: MailServer) -> Check:
    counts = [mail.arrived[address] for address in load.addresses]
    once = counts.count(1)
    missing = counts.count(0)
    return Check(
        passed=once == len(counts),
        text=(
            f"mails: {once} of {len(counts)} arrived exactly once, {missing} are "
            f"missing, {len(counts) - once - missing} came more than once"
        ),
    )


def _limits(load: Load, journal_path: Path) -> list[Check]:
    peaks = journal.peaks(journal_path)
    return [
        Check(
            # A pool without a peak has no witness: that is no proof either.
            passed=0 < peaks.get(name, 0) <= LIMITS[name],
            text=f"limit of {name}: peak {peaks.get(name, 0)}/{LIMITS[name]}",
        )
        for name in sorted(load.work_ids)
    ]


def _begins(load: Load, journal_path: Path) -> Check:
    begins = journal.begins(journal_path)
    actions = [str(key) for key in (*load.work_ids["emails"], *load.work_ids["scrape"])]
    once = sum(begins.get(work_id) == 1 for work_id in actions)
    return Check(
        passed=once == len(actions),
        text=f"actions: {once} of {len(actions)} began exactly once",
    )


def _scrapes(load: Load, weather: WeatherServer) -> Check:
    rows = Weather.objects.count() - load.weather_before
    cities = len(load.work_ids["scrape"])
    return Check(
        passed=rows == weather.answered == cities and weather.peak == LIMITS["scrape"],
        text=(
            f"weather: {rows} of {cities} rows, {weather.answered} requests, "
            f"at most {weather.peak} at a time"
        ),
    )


def _counter(load: Load) -> Check:
    added = counter_value() - load.counter_before
    increments = len(load.work_ids["counter"])
    return Check(
        passed=added == increments, text=f"counter: rose by {added} of {increments}"
    )
