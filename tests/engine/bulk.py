"""A database as it looks after a long day: 100 000 works wait, 100 000 have ended.

Filled by the database itself, in seconds.  Works are numbered, and a number tells the
id, so that a test names rows without reading them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db import connections

from django_workpool.db.dialect import to_parameter

POOL: Final = "big"
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
PENDING: Final = 100_000
COMPLETED: Final = 100_000
IN_PROGRESS: Final = 50_000
# In progress of POOL itself; the others belong to nine more pools.
LANES: Final = 500
WORKERS: Final = 500
# The numbers of the first work of each kind.
FIRST_PENDING: Final = 1
FIRST_COMPLETED: Final = FIRST_PENDING + PENDING
FIRST_RUNNING: Final = FIRST_COMPLETED + COMPLETED
FIRST_WORKER: Final = 1_000_000
FREE_LANES: Final = 1_000_000

_VENDORS = {
    "sqlite": {
        "numbers": "WITH RECURSIVE s(n) AS (SELECT %(first)s UNION ALL"
        " SELECT n + 1 FROM s WHERE n < %(last)s)",
        "id": "printf('%%032x', {})",
        "ago": "datetime(%(now)s, '-' || n || ' seconds')",
        "true": "1",
        "false": "0",
    },
    "postgresql": {
        "numbers": "WITH s AS"
        " (SELECT n FROM generate_series(%(first)s::bigint, %(last)s::bigint) n)",
        "id": "lpad(to_hex({}), 32, '0')::uuid",
        "ago": "(%(now)s::timestamptz - n * interval '1 second')",
        "true": "TRUE",
        "false": "FALSE",
    },
}
_WORK = (
    "INSERT INTO workpool_work (id, pool, fn_type, fn_handle, fn_name, fn_args,"
    " attempts, deaths, enqueued_at) {numbers} SELECT {id}, {pool}, 'action', 'app.f',"
    ' \'app.f\', \'{{"args": [], "kwargs": {{"n": 1}}}}\', 0, 0, {ago} FROM s'
)
_START = (
    "INSERT INTO workpool_pending_start (id, work_id, pool, fn_handle, rank, run_at,"
    " held) {numbers} SELECT n, {id}, {pool}, 'app.f', 0, {ago}, '' FROM s"
)
_COMPLETED = (
    "INSERT INTO workpool_completed_work (work_id, pool, completion_status,"
    " return_value, error_type, error, traceback, attempts, worker_id, started_at,"
    " completed_at) {numbers} SELECT {id}, {pool}, 'success', 'null', '', '', '', 1,"
    " NULL, {ago}, {ago} FROM s"
)
_RUNNING = (
    "INSERT INTO workpool_in_progress_work (work_id, pool, fn_handle, is_async,"
    " hand_out, attempt, worker_id, lane, place, handed_out_at, cancel_requested,"
    " start_id, rank, run_at) {numbers} SELECT {id}, {pool}, 'app.f', {false}, n, 1,"
    " {worker}, n, 1, {ago}, {false}, n, 0, {ago} FROM s"
)
_COMPLETION = (
    "INSERT INTO workpool_pending_completion (id, pool, work_id, hand_out, status,"
    " return_value, error_type, error, traceback, started_at, finished_at, worker_id)"
    " {numbers} SELECT n, {pool}, {id}, n, 'success', 'null', '', '', '', {ago}, {ago},"
    " {worker} FROM s"
)
_CANCELATION = (
    "INSERT INTO workpool_pending_cancelation (id, pool, work_id, requested_at)"
    " {numbers} SELECT n, {pool}, {id}, {ago} FROM s"
)
_POOL = (
    "INSERT INTO workpool_pool (name, max_parallelism, status_ttl, log_level, executor,"
    " overrides, paused, paused_reason) {numbers}"
    " SELECT {pool}, 10000, NULL, 'WARNING', 'local', '{{}}', {false}, '' FROM s"
)
_LOOP = (
    "INSERT INTO workpool_main_loop (pool, state, generation, saturated, known_digest)"
    " {numbers} SELECT {pool}, 'idle', 1, {false}, '' FROM s"
)
_WORKER = (
    "INSERT INTO workpool_worker (id, runner_id, pid, pools, handles, handles_digest,"
    " threads, coroutines, state, last_exit, marks_path, started_at, kind, machine_id,"
    " boot_id, pid_namespace, process_start, lock_path) {numbers}"
    " SELECT {worker}, {id}, n, '[]', '{{}}', 'digest', 100, 100,"
    " CASE WHEN n = %(first)s THEN 'dead' ELSE 'ready' END, '', '', {ago}, 'worker',"
    " '', '', 0, 0, '' FROM s"
)


def work_id(number: int) -> UUID:
    """Return the id of the work of that number."""
    return UUID(int=number)


def worker_id(number: int) -> UUID:
    """Return the id of the worker that holds the running work of that number."""
    return UUID(int=FIRST_WORKER + number % WORKERS)


def insert(using: str, text: str, first: int, count: int, pool: str) -> None:
    """Insert *count* rows, numbered from *first*; *pool* is an expression of ``n``."""
    vendor = _VENDORS[connections[using].vendor]
    filled = text.format(
        numbers=vendor["numbers"],
        id=vendor["id"].format("n"),
        worker=vendor["id"].format(f"{FIRST_WORKER} + n %% {WORKERS}"),
        pool=pool,
        ago=vendor["ago"],
        true=vendor["true"],
        false=vendor["false"],
    )
    bounds: dict[str, Any] = {
        "first": first,
        "last": first + count - 1,
        "now": to_parameter(NOW, using),
    }
    with connections[using].cursor() as cursor:
        cursor.execute(filled, bounds)


def fill_completed(using: str, pool: str, count: int) -> None:
    """Insert *count* ended works of *pool*, a second apart, the newest before NOW."""
    insert(using, _WORK, FIRST_COMPLETED, count, f"'{pool}'")
    insert(using, _COMPLETED, FIRST_COMPLETED, count, f"'{pool}'")


def _mixed(first: int) -> str:
    """Return the pool of the row *n*: POOL at first, then nine more in turn."""
    return f"CASE WHEN n < {first + LANES} THEN '{POOL}' ELSE 'pool-' || (n %% 9) END"


def fill(using: str) -> None:
    """Insert everything."""
    own = f"'{POOL}'"
    mixed = _mixed(FIRST_RUNNING)
    fill_completed(using, POOL, COMPLETED)
    insert(using, _WORK, FIRST_PENDING, PENDING, own)
    insert(using, _START, FIRST_PENDING, PENDING, own)
    insert(using, _CANCELATION, FIRST_PENDING, IN_PROGRESS, _mixed(FIRST_PENDING))
    insert(using, _WORK, FIRST_RUNNING, IN_PROGRESS, mixed)
    insert(using, _RUNNING, FIRST_RUNNING, IN_PROGRESS, mixed)
    insert(using, _COMPLETION, FIRST_RUNNING, IN_PROGRESS, mixed)
    for text in (_POOL, _LOOP):
        insert(using, text, 0, 1, own)
        insert(using, text, 0, 9, "'pool-' || n")
    insert(using, _WORKER, 0, WORKERS, own)
