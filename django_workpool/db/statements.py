"""The hot statements, as fixed SQL text (protocol R4).

Each names its columns, its order and its bound.  ``{keys}`` is the key list, the other
holes are those of ``dialect.py``.  The parameter names are the same everywhere: pool,
now, keys, limit.  A test runs each of them on every vendor and asserts its query plan.
"""

from __future__ import annotations

from django_workpool.db.session import Statement


def _one(text: str, *keys: str) -> Statement:
    return Statement(steps=(text,), keys=keys)


# --- the pass reads, in this order (protocol R1) -----------------------------------

LOCK_LOOP = _one(
    "SELECT generation, state, run_at, saturated FROM workpool_main_loop"
    " WHERE pool = %(pool)s {skip_locked}"
)
READ_LOOP = _one(
    "SELECT generation, state, run_at, saturated FROM workpool_main_loop"
    " WHERE pool = %(pool)s"
)
# A worker that stopped or died matters only while a row of this pool names it.
# vendor: PostgreSQL would hash the whole table for an EXISTS; OFFSET forbids it.
POOL_AND_WORKERS = _one(
    "SELECT o.max_parallelism, o.status_ttl, o.log_level, o.overrides, o.paused,"
    " o.paused_until, {clock} AS read_at,"
    " (SELECT MIN(d.completed_at) FROM workpool_completed_work d"
    " WHERE d.pool = o.name) AS oldest,"
    " w.id, w.state, w.pools, w.handles_digest, w.threads, w.coroutines, w.begun,"
    " w.last_exit,"
    " (SELECT COUNT(*) FROM workpool_in_progress_work p"
    " WHERE p.worker_id = w.id AND NOT p.is_async) AS used_threads,"
    " (SELECT COUNT(*) FROM workpool_in_progress_work p"
    " WHERE p.worker_id = w.id AND p.is_async) AS used_coroutines"
    " FROM workpool_pool o LEFT JOIN workpool_worker w"
    " ON (w.state = 'ready' AND w.kind = 'worker')"
    " OR (w.state IN ('dead', 'stopped') AND EXISTS ("
    "SELECT 1 FROM workpool_in_progress_work p"
    " WHERE p.worker_id = w.id AND p.pool = o.name LIMIT 1 OFFSET 0))"
    " WHERE o.name = %(pool)s"
)
HANDLES = _one(
    "SELECT handles FROM workpool_worker"
    " WHERE state = 'ready' AND handles_digest = %(digest)s LIMIT 1"
)
IN_PROGRESS = _one(
    "SELECT work_id, hand_out, attempt, worker_id, lane, place, is_async,"
    " cancel_requested"
    " FROM workpool_in_progress_work WHERE pool = %(pool)s ORDER BY lane, place"
)
LOCK_IN_PROGRESS = _one(
    "SELECT p.work_id FROM workpool_in_progress_work p"
    " WHERE p.work_id IN (SELECT k.work_id FROM {keys} k) {skip_locked}",
    "work_id uuid",
)
# Asked of works that were seen in progress and, later, pending (protocol R1).
STILL_IN_PROGRESS = _one(
    "SELECT p.work_id FROM workpool_in_progress_work p"
    " WHERE p.work_id IN (SELECT k.work_id FROM {keys} k)",
    "work_id uuid",
)
COMPLETIONS = _one(
    "SELECT id, work_id, hand_out, status FROM workpool_pending_completion"
    " WHERE pool = %(pool)s ORDER BY id LIMIT %(limit)s"
)
COMPLETIONS_OF = _one(
    "SELECT c.id, c.work_id, c.hand_out, c.status FROM workpool_pending_completion c"
    " WHERE c.pool = %(pool)s"
    " AND c.work_id IN (SELECT k.work_id FROM {keys} k) ORDER BY c.id",
    "work_id uuid",
)
LOST_WORKS = _one(
    "SELECT w.id, w.fn_type, w.deaths FROM workpool_work w"
    " WHERE w.id IN (SELECT k.work_id FROM {keys} k)",
    "work_id uuid",
)
CANCELATIONS = _one(
    "SELECT c.id, c.work_id, s.id FROM workpool_pending_cancelation c"
    " LEFT JOIN workpool_pending_start s ON s.work_id = c.work_id"
    " WHERE c.pool = %(pool)s ORDER BY c.id LIMIT %(limit)s"
)
DUE_HEAD = _one(
    "SELECT id, work_id, fn_handle, rank, run_at FROM workpool_pending_start"
    " WHERE pool = %(pool)s AND held = '' ORDER BY rank, run_at, id LIMIT %(limit)s"
)

# --- the pass writes ----------------------------------------------------------------

_COMPLETED = (
    "INSERT INTO workpool_completed_work (work_id, pool, completion_status,"
    " return_value, error_type, error, traceback, attempts, worker_id, started_at,"
    " completed_at) "
)
_COMPLETED_FROM_COMPLETION = (
    _COMPLETED + "SELECT c.work_id, c.pool, k.status,"
    " CASE WHEN k.status = 'success' THEN c.return_value END, c.error_type, c.error,"
    " c.traceback, p.attempt, c.worker_id, c.started_at, c.finished_at"
)
# An empty status drops the completion: it is late, or a duplicate.
CONSUME_COMPLETIONS = Statement(
    keys=("id bigint", "work_id uuid", "hand_out bigint", "status text"),
    steps=(
        _COMPLETED_FROM_COMPLETION + " FROM {keys} k"
        " {cross} workpool_pending_completion c ON c.id = k.id"
        " {cross} workpool_in_progress_work p"
        " ON p.work_id = k.work_id AND p.hand_out = k.hand_out WHERE k.status <> ''",
        (
            "DELETE FROM workpool_in_progress_work WHERE work_id IN"
            " (SELECT k.work_id FROM {keys} k WHERE k.status <> '')"
        ),
        (
            "DELETE FROM workpool_pending_completion WHERE id IN"
            " (SELECT k.id FROM {keys} k)"
        ),
    ),
    moving="WITH k AS MATERIALIZED (SELECT * FROM {keys} k),"
    " c AS (DELETE FROM workpool_pending_completion c USING k WHERE c.id = k.id"
    " RETURNING c.*),"
    " p AS (DELETE FROM workpool_in_progress_work p USING k"
    " WHERE p.work_id = k.work_id AND p.hand_out = k.hand_out AND k.status <> ''"
    " RETURNING p.work_id, p.attempt) "
    + _COMPLETED_FROM_COMPLETION
    + " FROM k JOIN c ON c.id = k.id JOIN p ON p.work_id = k.work_id"
    " WHERE k.status <> ''",
)
_COMPLETED_AS_CANCELED = (
    _COMPLETED + "SELECT s.work_id, s.pool, 'canceled', NULL, '', '', '',"
    " COALESCE(w.attempts, 0), NULL, NULL, %(now)s"
)
CANCEL_PENDING = Statement(
    keys=("id bigint",),
    steps=(
        _COMPLETED_AS_CANCELED + " FROM {keys} k"
        " {cross} workpool_pending_start s ON s.id = k.id"
        " LEFT JOIN workpool_work w ON w.id = s.work_id",
        "DELETE FROM workpool_pending_start WHERE id IN (SELECT k.id FROM {keys} k)",
    ),
    moving="WITH s AS (DELETE FROM workpool_pending_start s USING {keys} k"
    " WHERE s.id = k.id RETURNING s.work_id, s.pool) "
    + _COMPLETED_AS_CANCELED
    + " FROM s LEFT JOIN workpool_work w ON w.id = s.work_id",
)
FLAG_CANCELED = _one(
    "UPDATE workpool_in_progress_work SET cancel_requested = {true}"
    " WHERE work_id IN (SELECT k.work_id FROM {keys} k)",
    "work_id uuid",
)
DELETE_CANCELATIONS = _one(
    "DELETE FROM workpool_pending_cancelation WHERE id IN (SELECT k.id FROM {keys} k)",
    "id bigint",
)
_COMPLETED_AS_LOST = (
    _COMPLETED + "SELECT p.work_id, p.pool, k.status, NULL, k.error_type, k.error, '',"
    " p.attempt, p.worker_id, p.handed_out_at, %(now)s"
)
END_LOST = Statement(
    keys=("work_id uuid", "status text", "error_type text", "error text"),
    steps=(
        _COMPLETED_AS_LOST + " FROM {keys} k"
        " {cross} workpool_in_progress_work p ON p.work_id = k.work_id",
        (
            "DELETE FROM workpool_in_progress_work"
            " WHERE work_id IN (SELECT k.work_id FROM {keys} k)"
        ),
    ),
    moving="WITH k AS MATERIALIZED (SELECT * FROM {keys} k),"
    " p AS (DELETE FROM workpool_in_progress_work p USING k"
    " WHERE p.work_id = k.work_id RETURNING p.*) "
    + _COMPLETED_AS_LOST
    + " FROM k JOIN p ON p.work_id = k.work_id",
)
COUNT_DEATHS = _one(
    "UPDATE workpool_work SET deaths = deaths + 1"
    " WHERE id IN (SELECT k.work_id FROM {keys} k)",
    "work_id uuid",
)
_STARTED = (
    "INSERT INTO workpool_in_progress_work (work_id, pool, fn_handle, is_async,"
    " hand_out, attempt, worker_id, lane, place, handed_out_at, cancel_requested,"
    " start_id, rank, run_at) "
)
# The join with the work drops a queue row whose work is gone, without a slot; and what
# has ended never runs again, whatever row says so.
_NOT_COMPLETED = (
    " NOT EXISTS (SELECT 1 FROM workpool_completed_work d WHERE d.work_id = s.work_id)"
)
START = Statement(
    keys=(
        "id bigint",
        "is_async flag",
        "hand_out bigint",
        "worker_id uuid",
        "lane bigint",
        "place bigint",
    ),
    steps=(
        _STARTED + "SELECT s.work_id, s.pool, s.fn_handle, k.is_async, k.hand_out,"
        " w.attempts + 1, k.worker_id, k.lane, k.place, %(now)s, {false}, s.id, s.rank,"
        " s.run_at FROM {keys} k {cross} workpool_pending_start s ON s.id = k.id"
        " {cross} workpool_work w ON w.id = s.work_id WHERE" + _NOT_COMPLETED,
        "DELETE FROM workpool_pending_start WHERE id IN (SELECT k.id FROM {keys} k)",
    ),
    moving="WITH s AS (DELETE FROM workpool_pending_start s USING {keys} k"
    " WHERE s.id = k.id RETURNING s.*, k.is_async, k.hand_out, k.worker_id, k.lane,"
    " k.place) "
    + _STARTED
    + "SELECT s.work_id, s.pool, s.fn_handle, s.is_async, s.hand_out, w.attempts + 1,"
    " s.worker_id, s.lane, s.place, %(now)s, {false}, s.id, s.rank, s.run_at"
    " FROM s JOIN workpool_work w ON w.id = s.work_id WHERE" + _NOT_COMPLETED,
)
# A row that cannot be moved ends its work as error, unless that has ended or is
# elsewhere, and goes: it must never wedge the loop (protocol R8).
_COMPLETED_AS_POISON = (
    _COMPLETED + "SELECT {s}.work_id, {s}.pool, 'error', NULL, 'WorkpoolError',"
    " 'A row of this work could not be moved; the log says why.', '', 0, NULL, NULL,"
    " %(now)s"
)
_NOT_ELSEWHERE = (
    " AND NOT EXISTS (SELECT 1 FROM {table} x WHERE x.work_id = {s}.work_id)"
)


def _poison(alias: str, source: str, *others: str) -> str:
    elsewhere = "".join(
        _NOT_ELSEWHERE.format(table=table, s=alias)
        for table in ("workpool_completed_work", *others)
    )
    return f"{_COMPLETED_AS_POISON.format(s=alias)} {source}{elsewhere}"


DROP_COMPLETION = Statement(
    keys=CONSUME_COMPLETIONS.keys,
    steps=(
        _poison(
            "c",
            "FROM {keys} k {cross} workpool_pending_completion c ON c.id = k.id"
            " WHERE k.status <> ''",
        ),
        *CONSUME_COMPLETIONS.steps[1:],
    ),
)
DROP_START = Statement(
    keys=("id bigint",),
    steps=(
        _poison(
            "s",
            "FROM {keys} k {cross} workpool_pending_start s ON s.id = k.id WHERE 1 = 1",
            "workpool_in_progress_work",
        ),
        CANCEL_PENDING.steps[1],
    ),
)
DROP_RUNNING = Statement(
    keys=("work_id uuid",),
    steps=(
        _poison(
            "p",
            "FROM {keys} k {cross} workpool_in_progress_work p ON p.work_id = k.work_id"
            " WHERE 1 = 1",
            "workpool_pending_start",
        ),
        END_LOST.steps[1],
    ),
)
EXPIRED = _one(
    "SELECT work_id FROM workpool_completed_work"
    " WHERE pool = %(pool)s AND completed_at <= %(before)s"
    " ORDER BY completed_at LIMIT %(limit)s"
)
DELETE_EXPIRED = Statement(
    keys=("work_id uuid",),
    steps=(
        "DELETE FROM workpool_work WHERE id IN (SELECT k.work_id FROM {keys} k)",
        (
            "DELETE FROM workpool_completed_work"
            " WHERE work_id IN (SELECT k.work_id FROM {keys} k)"
        ),
    ),
)
UPDATE_LOOP = _one(
    "UPDATE workpool_main_loop SET state = %(state)s, run_at = %(run_at)s,"
    " saturated = %(saturated)s, generation = %(generation)s,"
    " last_runner = %(runner)s, last_pass_at = %(now)s, last_pass_ms = %(pass_ms)s"
    " WHERE pool = %(pool)s"
)
INSERT_LOOP = _one(
    "INSERT INTO workpool_main_loop (pool, state, generation, saturated, known_digest)"
    " VALUES (%(pool)s, 'idle', %(generation)s, {false}, '')"
    " ON CONFLICT (pool) DO NOTHING"
)
