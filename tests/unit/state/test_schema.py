"""Migrations, and the schema that they add up to."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pytest_agentreplay.state import open_store
from pytest_agentreplay.state.engine import APPLICATION_ID, upgrade
from pytest_agentreplay.state.statements import SCHEMA, SQL, migrations, past_statement


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
    identity = store.execute(SQL["find_about"], ("store",)).fetchone()

    upgrade(store, [*migrations(), "CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('kept')"])

    assert store.execute("SELECT text FROM notes").fetchall() == [("kept",)]
    assert store.execute("PRAGMA user_version").fetchone() == (len(migrations()) + 1,)
    assert store.execute(SQL["find_about"], ("store",)).fetchone() == identity
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


def test_every_statement_can_be_prepared() -> None:
    connection = empty()
    upgrade(connection, migrations())
    statements = {name: past_statement(name, 3) if "$lineage" in SQL[name] else SQL[name] for name in SQL}

    for name, statement in statements.items():
        connection.execute(f"EXPLAIN {statement}", (None,) * _parameters(statement))
        assert "$" not in statement, name

    assert len(statements) > 20
    assert "CREATE TABLE" in SCHEMA
    connection.close()


def _parameters(statement: str) -> int:
    return next(count for count in range(99, -1, -1) if f"?{count}" in statement or not count)
