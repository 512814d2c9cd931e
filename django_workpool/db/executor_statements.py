"""The hot statements of enqueue, of the kick and of the executors (protocol R4)."""

from __future__ import annotations

from django_workpool.db.session import Statement

# --- enqueue and kick ---------------------------------------------------------------

_WORK = (
    "INSERT INTO workpool_work (id, pool, fn_type, fn_handle, fn_name, fn_args,"
    " attempts, deaths, enqueued_at) SELECT k.id, %(pool)s, %(fn_type)s, %(fn_handle)s,"
    " %(fn_name)s, k.fn_args, 0, 0, "
)
_START = (
    "INSERT INTO workpool_pending_start (work_id, pool, fn_handle, rank, run_at, held)"
    " SELECT k.id, %(pool)s, %(fn_handle)s, 0, "
)
ENQUEUE = Statement(
    keys=("id uuid", "fn_args text"),
    steps=(
        _WORK + "{clock} FROM {keys} k",
        _START + "{clock}, '' FROM {keys} k ORDER BY k.n",
    ),
    moving="WITH k AS MATERIALIZED (SELECT * FROM {keys} k),"
    " t AS MATERIALIZED (SELECT {clock} AS now),"
    " w AS ("
    + _WORK
    + "t.now FROM k CROSS JOIN t) "
    # The sorted rows take the numbers of the queue one after the other.
    + _START
    + "t.now, '' FROM k CROSS JOIN t ORDER BY k.n RETURNING run_at",
)
# One read after the commit: is the loop awake, and is the event wanted?
KICK = Statement(
    steps=(
        (
            "SELECT o.log_level, o.overrides, m.state, m.saturated FROM workpool_pool o"
            " LEFT JOIN workpool_main_loop m ON m.pool = o.name WHERE o.name = %(pool)s"
        ),
    )
)
_SCAN = (
    "{name}(pool) AS (SELECT MIN(pool) FROM {table} UNION ALL"
    " SELECT (SELECT MIN(s.pool) FROM {table} s WHERE s.pool > n.pool) FROM {name} n"
    " WHERE n.pool IS NOT NULL)"
)
_SCANS = ", ".join(
    _SCAN.format(name=name, table=f"workpool_pending_{name}")
    for name in ("start", "completion", "cancelation")
)
# Every pool with something to look at, known or not, in one query (protocol R35).  The
# pending tables are walked name by name, never row by row.
BACKSTOP = Statement(
    steps=(
        "WITH RECURSIVE " + _SCANS + ", waiting(pool) AS (SELECT pool FROM start"
        " UNION SELECT pool FROM completion UNION SELECT pool FROM cancelation"
        " UNION SELECT p.pool FROM workpool_worker w"
        " JOIN workpool_in_progress_work p ON p.worker_id = w.id"
        " WHERE w.state IN ('dead', 'stopped'))"
        " SELECT x.pool, CASE WHEN q.pool IS NULL THEN 0 ELSE 1 END,"
        " CASE WHEN (SELECT MIN(p.lane) FROM workpool_in_progress_work p"
        " WHERE p.pool = x.pool) IS NULL THEN 0 ELSE 1 END, m.state, m.run_at,"
        " o.status_ttl, o.overrides, (SELECT MIN(d.completed_at)"
        " FROM workpool_completed_work d WHERE d.pool = x.pool)"
        " FROM (SELECT name AS pool FROM workpool_pool UNION SELECT pool FROM waiting)"
        " x LEFT JOIN waiting q ON q.pool = x.pool"
        " LEFT JOIN workpool_main_loop m ON m.pool = x.pool"
        " LEFT JOIN workpool_pool o ON o.name = x.pool WHERE x.pool IS NOT NULL",
    )
)

# --- executors ----------------------------------------------------------------------

# Everything that a worker holds, narrow; arguments only of what it has not seen.
FETCH = Statement(
    keys=("work_id uuid", "hand_out bigint"),
    steps=(
        (
            "SELECT p.work_id, p.hand_out, p.pool, p.fn_handle, p.attempt, p.is_async,"
            " p.run_at, {clock} AS read_at, CASE WHEN p.cancel_requested OR EXISTS ("
            "SELECT 1 FROM workpool_pending_cancelation c WHERE c.work_id = p.work_id"
            " LIMIT 1 OFFSET 0)"
            " THEN 1 ELSE 0 END, CASE WHEN k.work_id IS NULL THEN 1 ELSE 0 END,"
            " w.fn_type, w.fn_name, w.fn_args, w.enqueued_at, o.log_level, o.overrides"
            " FROM workpool_in_progress_work p"
            " LEFT JOIN {keys} k ON k.work_id = p.work_id AND k.hand_out = p.hand_out"
            " LEFT JOIN workpool_work w ON w.id = p.work_id AND k.work_id IS NULL"
            " LEFT JOIN workpool_pool o ON o.name = p.pool"
            " WHERE p.worker_id = %(worker)s ORDER BY p.hand_out"
        ),
    ),
)
_COMPLETION = (
    "INSERT INTO workpool_pending_completion (pool, work_id, hand_out, status,"
    " return_value, error_type, error, traceback, started_at, finished_at, worker_id) "
)
OUTBOX = Statement(
    keys=(
        "pool text",
        "work_id uuid",
        "hand_out bigint",
        "status text",
        "return_value text",
        "error_type text",
        "error text",
        "traceback text",
        "started_at time",
        "finished_at time",
        "worker_id uuid",
    ),
    steps=(
        _COMPLETION + "SELECT k.pool, k.work_id, k.hand_out, k.status, k.return_value,"
        " k.error_type, k.error, k.traceback, k.started_at, k.finished_at, k.worker_id"
        " FROM {keys} k ORDER BY k.n",
    ),
)
# Fence and completion of a mutation, in one statement (protocol R23).
FENCE = Statement(
    steps=(
        _COMPLETION + "SELECT p.pool, p.work_id, p.hand_out, 'success',"
        " %(return_value)s, '', '', '', %(started_at)s, %(finished_at)s, p.worker_id"
        " FROM workpool_in_progress_work p"
        " WHERE p.work_id = %(work_id)s AND p.hand_out = %(hand_out)s {for_update}",
    ),
)
# After an error on COMMIT: the row lock waits for the end of the old session.
READ_BACK_LOCK = Statement(
    steps=(
        (
            "SELECT p.work_id FROM workpool_in_progress_work p"
            " WHERE p.work_id = %(work_id)s AND p.hand_out = %(hand_out)s {for_update}"
        ),
    ),
)
READ_BACK = Statement(
    steps=(
        (
            "SELECT c.id FROM workpool_pending_completion c"
            " WHERE c.work_id = %(work_id)s AND c.hand_out = %(hand_out)s LIMIT 1"
        ),
    ),
)
_BACK = (
    "INSERT INTO workpool_pending_start (id, work_id, pool, fn_handle, rank, run_at,"
    " held) SELECT p.start_id, p.work_id, p.pool, p.fn_handle, p.rank, p.run_at, ''"
)
_NOT_CANCELED = " p.work_id = k.work_id AND p.hand_out = k.hand_out"
# To its old place, uncounted; what was canceled is never given back (protocol R20).
# Where a row is there already, that one is its place: it must not hold up the others.
GIVE_BACK = Statement(
    keys=("work_id uuid", "hand_out bigint"),
    steps=(
        _BACK
        + " FROM {keys} k {cross} workpool_in_progress_work p ON"
        + _NOT_CANCELED
        + " WHERE NOT p.cancel_requested ON CONFLICT DO NOTHING",
        (
            "DELETE FROM workpool_in_progress_work WHERE NOT cancel_requested"
            " AND (work_id, hand_out) IN (SELECT k.work_id, k.hand_out FROM {keys} k)"
        ),
    ),
    moving="WITH p AS (DELETE FROM workpool_in_progress_work p USING {keys} k WHERE"
    + _NOT_CANCELED
    + " AND NOT p.cancel_requested RETURNING p.*) "
    + _BACK
    + " FROM p ON CONFLICT DO NOTHING",
)
