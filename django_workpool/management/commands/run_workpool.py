"""``manage.py run_workpool``: one runner and its workers."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, BooleanOptionalAction, RawTextHelpFormatter
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from django_workpool import conf, failpoints, options, registry
from django_workpool.engine import counts, kick
from django_workpool.engine.declare import declare
from django_workpool.exceptions import WorkpoolConfigError
from django_workpool.models import Pool
from django_workpool.runner.config import Options
from django_workpool.runner.output import log_to_stderr
from django_workpool.runner.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.core.management.base import CommandParser

# Threads cost nothing before they are needed, and the limits of the pools decide.
DEFAULT_THREADS = 32
LONGEST_SHUTDOWN = 86_400

HELP = """Run works: passes of the main loops, and workers that execute functions.

SIGTERM or SIGINT: take no more works, wait for the running ones (--shutdown-timeout),
give back what has not begun, exit 0.  A second signal ends everything now, exit 1.

Examples:
  manage.py run_workpool --processes 2 --threads 8
  manage.py run_workpool --pools emails,scrape --drain

Each option can also be set as WORKPOOL_<OPTION>, by settings or environment."""


def _count(low: int, high: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            msg = f"{text!r} is not a whole number from {low} to {high}"
            raise ArgumentTypeError(msg)
        return int(text)

    return whole_number


def _names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    if not names:
        msg = "give names of pools, separated by commas"
        raise ArgumentTypeError(msg)
    return names


def _seconds(text: str) -> timedelta:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_SHUTDOWN:
        msg = f"{text!r} is not a number of seconds from 0 to {LONGEST_SHUTDOWN}"
        raise ArgumentTypeError(msg)
    return timedelta(seconds=seconds)


def _settings(parser: CommandParser) -> conf.Settings:
    """Return the settings; a bad one is a mistake of the command line, too."""
    try:
        return conf.get_settings()
    except WorkpoolConfigError as error:
        parser.error(str(error))
        raise


class Command(BaseCommand):
    """Parse, validate, and hand keywords to a ``Supervisor``."""

    help = HELP
    requires_migrations_checks = False

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        """Keep the line breaks of the help."""
        kwargs["formatter_class"] = RawTextHelpFormatter
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options, each with the default of the settings."""
        found = _settings(parser)
        add = parser.add_argument
        add(
            "--database",
            default=DEFAULT_DB_ALIAS,
            help="Alias of the database whose pools are served (default: default).",
        )
        add(
            "--pools",
            type=_names,
            default=found.pools,
            metavar="A,B",
            help="Serve only these pools (default: all).",
        )
        add(
            "--processes",
            type=_count(1, 256),
            default=found.processes,
            help=f"Worker processes of this runner (default: {found.processes}).",
        )
        add(
            "--threads",
            type=_count(1, 1_000),
            default=found.threads or DEFAULT_THREADS,
            help="Sync functions that each worker runs at the same time"
            f" (default: {found.threads or DEFAULT_THREADS}).",
        )
        add(
            "--coroutines",
            type=_count(1, 100_000),
            default=found.coroutines,
            help="Async functions that each worker runs at the same time"
            f" (default: {found.coroutines}).",
        )
        add(
            "--shutdown-timeout",
            type=_seconds,
            default=found.shutdown_timeout,
            metavar="SECONDS",
            help="How long a stop waits for running functions, in seconds"
            f" (default: {found.shutdown_timeout.total_seconds():g}).",
        )
        add(
            "--drain",
            action=BooleanOptionalAction,
            default=found.drain,
            help="End when nothing is due any more (exit 0).",
        )
        add(
            "--loop",
            action=BooleanOptionalAction,
            default=found.loop,
            help="Make passes here; --no-loop leaves them to another runner.",
        )
        add(
            "--workers",
            action=BooleanOptionalAction,
            default=found.workers,
            help="Run works here; --no-workers leaves them to another runner.",
        )

    def handle(self, *_args: Any, **given: Any) -> None:
        """Run until a signal; the exit code says whether the stop was clean."""
        using = given["database"]
        if using not in connections:
            known = ", ".join(connections)
            msg = f"There is no database {using!r}. The aliases are: {known}."
            raise CommandError(msg)
        if not given["loop"] and not given["workers"]:
            msg = "--no-loop with --no-workers leaves nothing to do. Drop one of them."
            raise CommandError(msg)
        if given["drain"] and not given["loop"]:
            msg = "--drain needs the loop: only it knows when nothing is due. Drop one."
            raise CommandError(msg)
        self._check_tables(using)
        log_to_stderr(given["verbosity"])
        failpoints.arm("runner", is_allowed=conf.get_settings().allow_failpoints)
        self._declare(using)
        supervisor = Supervisor(
            Options(
                using=using,
                pools=given["pools"],
                processes=given["processes"] if given["workers"] else 0,
                threads=given["threads"],
                coroutines=given["coroutines"],
                shutdown_timeout=given["shutdown_timeout"].total_seconds(),
                drain=given["drain"],
                loop=given["loop"],
                state_dir=conf.get_settings().state_dir,
                verbosity=given["verbosity"],
            ),
            ready=lambda wake_up: self._say_ready(wake_up, given),
            say=self._say,
        )
        code = supervisor.run()
        if given["drain"]:
            self._say_left(given)
        if code:
            sys.exit(code)

    def _check_tables(self, using: str) -> None:
        executor = MigrationExecutor(connections[using])
        targets = [
            key for key in executor.loader.graph.leaf_nodes() if key[0] == "workpool"
        ]
        names = connections[using].introspection.table_names()
        if executor.migration_plan(targets) or Pool._meta.db_table not in names:
            msg = (
                f"The tables of django_workpool on {using!r} are missing or not up to"
                f" date. Run: manage.py migrate workpool --database {using}; or, if a"
                " router keeps them elsewhere, name that database by --database."
            )
            raise CommandError(msg)

    def _declare(self, using: str) -> None:
        """Write what code declares, only where it differs from the rows."""
        for name in options.declared():
            if (options.declared_alias(name) or DEFAULT_DB_ALIAS) == using:
                declare(using, name)

    def _say_ready(self, wake_up: str, given: dict[str, Any]) -> None:
        using = given["database"]
        known = {found.pool for found in kick.overview(using)}
        pools = given["pools"] or known
        for name in sorted(set(given["pools"]) - known):
            self._say(f"run_workpool warning: there is no pool {name!r} yet")
        self._say(
            f"run_workpool ready: database {using} ({connections[using].vendor}),"
            f" pools {', '.join(sorted(pools)) or 'none yet'},"
            f" functions {len(registry.known_handles())},"
            f" workers {given['processes'] if given['workers'] else 0},"
            f" wake-up {wake_up}"
        )

    def _say_left(self, given: dict[str, Any]) -> None:
        """After a drain: name what could not start, for it is not done."""
        using = given["database"]
        names = given["pools"] or [found.pool for found in kick.overview(using)]
        for name in sorted(names):
            left = counts.queue_length(using, name)
            if left:
                self._say(
                    f"run_workpool drained: {left} works of pool {name!r} cannot start"
                    " now; Workpool.explain says why"
                )

    def _say(self, line: str) -> None:
        # Nowhere to print is no reason to stop (a closed pipe, a full disk).
        with suppress(Exception):
            self.stdout.write(line)
            self.stdout.flush()
