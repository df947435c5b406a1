"""Migrations, and the schema that they add up to."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from pytest_agentreplay.state import open_store
from pytest_agentreplay.state.connection import APPLICATION_ID, upgrade
from pytest_agentreplay.state.statements import SQL, migrations, past_statement


def tables(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()


def empty() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def test_the_schema_is_what_all_migrations_add_up_to() -> None:
    migrated, made = empty(), empty()

    for script in migrations():
        migrated.executescript(script)
    upgrade(made, migrations())

    assert tables(made) == tables(migrated)
    assert len(tables(made)) >= 8
    migrated.close()
    made.close()


def test_an_older_store_is_brought_up_to_date_by_the_migrations_it_has_not_seen() -> None:
    store = empty()
    upgrade(store, migrations())
    identity = store.execute(SQL["find_about"].text, ("store",)).fetchone()

    upgrade(store, [*migrations(), "CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('kept')"])

    assert store.execute("SELECT text FROM notes").fetchall() == [("kept",)]
    assert store.execute("PRAGMA user_version").fetchone() == (len(migrations()) + 1,)
    assert store.execute(SQL["find_about"].text, ("store",)).fetchone() == identity
    store.close()


def test_a_migration_that_fails_leaves_the_store_as_it_was() -> None:
    store = empty()
    upgrade(store, migrations())
    before = tables(store)

    with pytest.raises(sqlite3.OperationalError):
        upgrade(store, [*migrations(), "CREATE TABLE notes (text TEXT); INSERT INTO absent VALUES (1)"])

    assert tables(store) == before
    assert store.execute("PRAGMA user_version").fetchone() == (len(migrations()),)
    store.close()


def test_a_file_says_what_it_is_and_which_schema_it_has(tmp_path: Path) -> None:
    open_store(tmp_path / "state.db").close()

    connection = sqlite3.connect(tmp_path / "state.db")
    found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    connection.close()

    assert found == [APPLICATION_ID, len(migrations())]


def test_every_statement_can_be_prepared_from_nameless_placeholders() -> None:
    connection = empty()
    upgrade(connection, migrations())
    statements = {**SQL, "read_cell_in_past": past_statement("read_cell_in_past", 3)}

    for statement in statements.values():
        connection.execute(f"EXPLAIN {statement.text}", (None,) * statement.text.count("?"))

    assert len(statements) > 25
    assert not any(re.search(r"[?]\d|[:@$]\w", statement.text) for statement in statements.values())
    connection.close()


def test_a_parameter_that_is_used_twice_is_given_once() -> None:
    statement = past_statement("read_cell_in_past", 2)

    arranged = statement.arrange(("branch", "shape", "key", 1, 10, 2, 20))

    assert arranged == (1, 10, 2, 20, "shape", "key", "branch")


def test_no_statement_that_answers_a_question_goes_through_a_whole_table() -> None:
    connection = empty()
    upgrade(connection, migrations())
    statements = {**SQL, "read_cell_in_past": past_statement("read_cell_in_past", 3)}
    listing = {"list_branches", "list_all_branches", "list_cells", "list_all_events"}
    explaining = {"find_deleted_named"}  # what a BranchNotFoundError says, on its way out

    scanning = set()
    for name, statement in statements.items():
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", (None,) * statement.text.count("?"))
        if any(re.match(r"SCAN (about|branches|cells|events|[bcen])\b", row[3]) for row in plan):
            scanning.add(name)

    assert scanning == listing | explaining
    connection.close()
