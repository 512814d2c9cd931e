"""Each hot statement uses its indexes, however much waits and however much has ended.

On 100 000 pending and 100 000 completed works, with statistics and without: a database
that was never analyzed is what most people have.  Beside the plan the cost is bounded:
by the rows that PostgreSQL touched, by the steps of SQLite's machine.  Neither is time.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connections, transaction

from django_workpool.db import serial
from django_workpool.db.dialect import to_keys
from django_workpool.db.session import Session, texts
from django_workpool.models import PendingCancelation, PendingCompletion, PendingStart
from tests.engine import bulk
from tests.engine.plan_cases import OF_EXECUTORS, OF_PASS, Case, cases, found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.plugin import DjangoDbBlocker

USING = "default"
# A row for each process, pool or loop: an index would cost more than it saves.
SMALL = frozenset({"workpool_worker", "workpool_pool", "workpool_main_loop"})
# A scan of either big table touches 100 000 rows.
MOST_ROWS = 5_000
# Of SQLite's virtual machine; a scan of either big table makes 300 000 and more.
MOST_STEPS = 120_000
STEPS_A_CALL = 100
STEPS_A_ROW = 12
CASES = tuple(cases())


@pytest.fixture(scope="module", params=[False, True], ids=["bare", "analyzed"])
def _filled(
    request: pytest.FixtureRequest,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[None]:
    """Fill fresh tables once for all statements, and make fresh ones again."""
    with django_db_blocker.unblock():
        _make_tables()
        try:
            if connections[USING].vendor == "postgresql":
                _keep_autovacuum_away()
            bulk.fill(USING)
            if connections[USING].vendor == "postgresql":
                _reset_sequences()
            if request.param:
                with connections[USING].cursor() as cursor:
                    cursor.execute("ANALYZE")
            yield
        finally:
            _make_tables()
            connections[USING].close()


def _make_tables() -> None:
    """Drop the tables and make them: what was known of the old ones is forgotten."""
    for target in ("zero", "0001"):
        call_command("migrate", "workpool", target, database=USING, verbosity=0)


def _tables() -> list[str]:
    names = connections[USING].introspection.table_names()
    return [name for name in names if name.startswith("workpool_")]


def _keep_autovacuum_away() -> None:
    with connections[USING].cursor() as cursor:
        for table in _tables():
            cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")


def _reset_sequences() -> None:
    models = [PendingStart, PendingCompletion, PendingCancelation]
    connection = connections[USING]
    with connection.cursor() as cursor:
        for text in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(text)


@pytest.fixture
def _database(_filled: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


@contextmanager
def _unit(case: Case) -> Iterator[Session]:
    """Open the transaction that the statement runs in, and take it back at the end."""
    open_ = serial.pass_unit if case.is_in_pass else serial.unit
    with open_(USING):
        yield Session(USING)
        transaction.set_rollback(True, using=USING)


def _params(case: Case, session: Session) -> dict[str, Any]:
    keys = {} if case.keys is None else {"keys": to_keys(case.keys, USING)}
    return session._params({**case.params, **keys})


def _run(case: Case) -> int:
    """Return how many rows the statement returned, or wrote in its last step."""
    with _unit(case) as session:
        params = _params(case, session)
        if case.is_write:
            return session.write(case.statement, **params)
        return len(session.rows(case.statement, **params))


def _explained(case: Case, prefix: str) -> list[list[tuple[Any, ...]]]:
    """Return what *prefix* says of each step of the statement."""
    with _unit(case) as session, connections[USING].cursor() as cursor:
        params = _params(case, session)
        found = []
        for text in texts(case.statement, session.dialect):
            cursor.execute(f"{prefix} {text}", params)
            found.append(cursor.fetchall())
        return found


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


def _big(node: dict[str, Any]) -> bool:
    table = node.get("Relation Name", "")
    is_scan = "Scan" in node["Node Type"]
    return is_scan and table.startswith("workpool_") and table not in SMALL


def _brief(node: dict[str, Any]) -> str:
    return f"{node['Node Type']} on {node.get('Relation Name')}, {node.get('Filter')}"


def _aliases(text: str) -> dict[str, str]:
    """Return the table behind each name that a statement gives to one of ours."""
    named = re.findall(r"\b(workpool_\w+)(?: (?:AS )?(\w+))?", text)
    return {**{table: table for table, _ in named}, **{a: table for table, a in named}}


def _scanned(details: list[str], aliases: dict[str, str]) -> list[str]:
    """Return the lines of a plan of SQLite that read one of our big tables whole."""
    big = {name for name, table in aliases.items() if table not in SMALL}
    whole = [d for d in details if d.startswith("SCAN ") or "AUTOMATIC" in d]
    return [detail for detail in whole if detail.split(" ")[1] in big]


def _touched(node: dict[str, Any]) -> int:
    """Return the rows of our tables that a node of an executed plan looked at."""
    if not node.get("Relation Name", "").startswith("workpool_"):
        return 0
    removed = [value for key, value in node.items() if key.startswith("Rows Removed")]
    return int((node["Actual Rows"] + sum(removed)) * node["Actual Loops"])


def test_every_hot_statement_has_a_case_here() -> None:
    assert set(found()) == set(OF_PASS) | set(OF_EXECUTORS)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.usefixtures("_database")
def test_a_hot_statement_runs_and_finds_its_rows(case: Case) -> None:
    assert case.rows == _run(case)


@pytest.mark.vendor("postgresql")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.usefixtures("_database")
def test_every_scan_of_a_big_table_has_an_index_condition(case: Case) -> None:
    plans = _explained(case, "EXPLAIN (FORMAT JSON)")

    nodes = [node for [[plan]] in plans for node in _nodes(plan[0]["Plan"])]
    scans = [node for node in nodes if _big(node)]
    whole = [_brief(n) for n in scans if "Index Cond" not in _with_bitmap(n)]
    assert [] == whole


def _with_bitmap(node: dict[str, Any]) -> dict[str, Any]:
    """Return the node that knows the condition: of a bitmap that is its child."""
    if node["Node Type"] != "Bitmap Heap Scan":
        return node
    return next((n for n in _nodes(node) if "Index Cond" in n), node)


@pytest.mark.vendor("postgresql")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.usefixtures("_database")
def test_the_rows_that_a_statement_touches_are_bounded(case: Case) -> None:
    plans = _explained(case, "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON)")

    nodes = [node for [[plan]] in plans for node in _nodes(plan[0]["Plan"])]
    extra = 2 * bulk.IN_PROGRESS if case.counts_running else 0
    assert sum(_touched(node) for node in nodes) < MOST_ROWS + extra


@pytest.mark.vendor("sqlite")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.usefixtures("_database")
def test_no_big_table_is_scanned(case: Case) -> None:
    plans = _explained(case, "EXPLAIN QUERY PLAN")

    steps = texts(case.statement, Session(USING).dialect)
    scans = [
        _scanned([row[3] for row in plan], _aliases(text))
        for plan, text in zip(plans, steps, strict=True)
    ]
    assert [[] for _ in steps] == scans


@pytest.mark.vendor("sqlite")
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.usefixtures("_database")
def test_the_steps_that_a_statement_makes_are_bounded(case: Case) -> None:
    calls = []
    with _unit(case) as session:
        raw = connections[USING].connection
        raw.set_progress_handler(lambda: calls.append(1), STEPS_A_CALL)
        session.write(case.statement, **_params(case, session))
        raw.set_progress_handler(None, 0)

    extra = STEPS_A_ROW * bulk.IN_PROGRESS if case.counts_running else 0
    assert len(calls) * STEPS_A_CALL < MOST_STEPS + extra
