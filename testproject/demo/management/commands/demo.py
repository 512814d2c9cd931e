"""``manage.py demo``: everything at work, checked, in under a minute."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, NoReturn

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from demo.processes import free_port
from demo.servers import HOST
from demo.show import Show

if TYPE_CHECKING:
    from django.core.management.base import CommandParser

DATABASE_VARIABLE = "DATABASE_URL"
HOME_VARIABLE = "DEMO_HOME"
DEFAULT_PORT = 8000
PREFIX = "workpool-demo-"


class Command(BaseCommand):
    """Run the demo: real mail, real HTTP, a real runner."""

    help = (
        "Start a mail server, a weather server and run_workpool, enqueue 300 works, "
        "and check that all came right. Uses a fresh SQLite file, or the database of "
        "DATABASE_URL. Examples: 'manage.py demo' and 'manage.py demo --serve'."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what can be chosen."""
        parser.add_argument(
            "--serve",
            action="store_true",
            help="stay up with the web page until Ctrl-C (default: end)",
        )
        parser.add_argument(
            "--port",
            type=int,
            help=f"port of the web page (default: {DEFAULT_PORT}, or a free one)",
        )
        parser.add_argument(
            "--database-file",
            type=Path,
            help="SQLite file to keep (default: a temporary one)",
        )

    def handle(
        self,
        *args: Any,
        serve: bool,
        port: int | None,
        database_file: Path | None,
        **options: Any,
    ) -> None:
        """Choose the database, play the show, and end with 0 or 1."""
        home = os.environ.pop(HOME_VARIABLE, None)
        if home is None and (database_file or DATABASE_VARIABLE not in os.environ):
            begin_again_on(database_file)
        directory = Path(home or mkdtemp(prefix=PREFIX))
        # A polite kill or a closed terminal is as good as Ctrl-C: all children stop.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        try:
            passed = Show(
                stdout=self.stdout,
                style=self.style,
                directory=directory,
                port=choose_port(port) if serve else None,
            ).run()
        except KeyboardInterrupt as error:
            message = "Interrupted."
            raise CommandError(message, returncode=130) from error
        finally:
            connections.close_all()
            shutil.rmtree(directory, ignore_errors=True)
        if not passed:
            message = "The demo failed: see above."
            raise CommandError(message)


def begin_again_on(database_file: Path | None) -> NoReturn:
    """Replace this process by the same command with a database of its own.

    Settings are read once, at the start; so a new start is the honest way to other
    settings, here and in all children.
    """
    home = Path(mkdtemp(prefix=PREFIX))
    file = (database_file or home / "demo.sqlite3").resolve()
    environment = {
        **os.environ,
        DATABASE_VARIABLE: f"sqlite:///{file}",
        HOME_VARIABLE: str(home),
    }
    # From the second word on: the first may be a bare "python" that PATH resolves.
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606


def choose_port(wanted: int | None) -> int:
    """Return the port of the page.

    Raises:
        CommandError: The port that was asked for is taken.
    """
    if wanted is None:
        return free_port(HOST, DEFAULT_PORT) or free_port(HOST, 0) or DEFAULT_PORT
    port = free_port(HOST, wanted)
    if port is None:
        message = f"Port {wanted} is taken. Choose another one, or leave out --port."
        raise CommandError(message)
    return port
