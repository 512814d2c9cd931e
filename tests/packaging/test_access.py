"""Who touches which table: the code does what ``engine.access`` says, and no less."""

from __future__ import annotations

import pytest

from django_workpool.db import executor_statements, statements
from django_workpool.db.dialect import _POSTGRES
from django_workpool.db.session import Statement, texts
from django_workpool.engine.access import ACCESS
from tests.packaging.access_scenarios import (
    SCENARIOS,
    first_enqueue,
    has_row_locks,
    looks,
    pass_that_cleans,
)
from tests.packaging.sql_access import ORDER, TABLES, Seen, access_of

needs_tables = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def _expected(*operations: str) -> dict[str, str]:
    """Return what these operations may do together, on this run's database."""
    tables = {table for operation in operations for table in ACCESS[operation]}
    allowed = ORDER if has_row_locks() else ORDER.replace("L", "")
    return {
        table: "".join(
            verb
            for verb in allowed
            if any(verb in ACCESS[name].get(table, "") for name in operations)
        )
        for table in tables
    }


def test_every_operation_has_its_scenarios() -> None:
    assert set(ACCESS) == set(SCENARIOS)


def test_the_table_names_all_tables_and_no_other() -> None:
    assert set(TABLES) == {table for row in ACCESS.values() for table in row}


@pytest.mark.parametrize("operation", ACCESS)
def test_the_verbs_of_a_cell_stand_in_their_order(operation: str) -> None:
    cells = list(ACCESS[operation].values())

    assert cells == ["".join(sorted(set(cell), key=ORDER.index)) for cell in cells]
    assert all(cells)


@needs_tables
@pytest.mark.parametrize("operation", ACCESS)
def test_an_operation_touches_the_tables_of_its_row_and_no_other(
    operation: str,
) -> None:
    seen = Seen()

    SCENARIOS[operation](seen)

    assert _expected(operation) == seen.access


@needs_tables
def test_the_first_enqueue_of_a_pool_also_declares_it_and_no_more() -> None:
    seen = Seen()

    first_enqueue(seen)

    assert _expected("enqueue", "declare") == seen.access


@needs_tables
def test_a_pass_that_cleans_up_does_what_both_do_and_no_more() -> None:
    seen = Seen()

    pass_that_cleans(seen)

    # Rows of processes are cleaned up between passes.
    assert {**_expected("pass", "cleanup"), "worker": "R"} == seen.access


@needs_tables
def test_explaining_and_counting_write_nothing() -> None:
    seen = Seen()

    looks(seen)

    assert set(TABLES) == set(seen.access)
    assert {"R"} == set(seen.access.values())


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1 FROM workpool_work w", {"work": {"R"}}),
        (
            'SELECT "workpool_pool"."name" FROM "workpool_pool" FOR UPDATE',
            {"pool": {"R", "L"}},
        ),
        (
            """INSERT INTO workpool_pending_start (id) SELECT p.start_id
            FROM workpool_in_progress_work p WHERE p.lane = 1 FOR UPDATE""",
            {"pending_start": {"I"}, "in_progress_work": {"R", "L"}},
        ),
        ('INSERT OR IGNORE INTO "workpool_pool" VALUES (1)', {"pool": {"I"}}),
        ('UPDATE "workpool_worker" SET "pid" = 1', {"worker": {"U"}}),
        (
            """WITH s AS (DELETE FROM workpool_pending_start s USING k WHERE s.id = 1)
            SELECT 1 FROM s JOIN workpool_work w ON TRUE""",
            {"pending_start": {"D"}, "work": {"R"}},
        ),
        ("SELECT 1 FROM tests_app_effect", {}),
    ],
)
def test_the_reader_of_statements_finds_verbs_and_tables(
    sql: str, expected: dict[str, set[str]]
) -> None:
    assert expected == access_of(sql)


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        (statements.LOCK_LOOP, "main_loop"),
        (statements.LOCK_IN_PROGRESS, "in_progress_work"),
        (executor_statements.FENCE, "in_progress_work"),
        (executor_statements.READ_BACK_LOCK, "in_progress_work"),
    ],
    ids=["the loop", "rows of a pass", "the fence", "the read-back"],
)
def test_each_statement_that_must_lock_does_where_rows_can_be_locked(
    statement: Statement, table: str
) -> None:
    (sql,) = texts(statement, _POSTGRES)

    assert {"R", "L"} == access_of(sql)[table]


def test_the_reader_of_statements_does_not_guess() -> None:
    with pytest.raises(ValueError, match="What does this do to pool"):
        access_of("TRUNCATE workpool_pool")
