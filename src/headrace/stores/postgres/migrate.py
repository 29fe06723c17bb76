"""Brings the schema up to date: numbered steps, each applied once, all of them or none."""

from contextlib import closing

import psycopg
from psycopg.sql import SQL, Identifier

from headrace.model.errors import BadConfig
from headrace.model.integrity import Schema, schema_at
from headrace.stores.postgres.connection import Connection, ConnectionSettings, connect, roll_back
from headrace.stores.postgres.errors import connect_error, translate_errors
from headrace.stores.postgres.sql import migration_names, migrations, sql


def migrate(connection: Connection, settings: ConnectionSettings, upto: int | None = None) -> int:
    """Bring the schema up to date, whole or not at all; returns its version. `upto` stops early, for tests.

    A schema that is up to date is only read, so a user without the right to change schemas can open it.
    """
    steps = migrations()
    newest = steps[-1][0] if upto is None else upto
    version = version_now(connection)
    if version < newest:
        connection.execute("BEGIN")
        try:
            # Processes that open a new database at once wait here for the first one, and then find nothing left to do.
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"headrace {settings.schema}",)
            )
            connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(settings.schema)))
            version = version_now(connection)
            for number, statements in steps:
                if version < number <= newest:
                    for statement in statements:
                        connection.execute(statement.encode(), prepare=False)
                    connection.execute(sql("layout_write"), (number,))
            version = version_now(connection)
        except BaseException:
            roll_back(connection)
            raise
        connection.execute("COMMIT")
    if upto is None:
        check_known(settings, version)
    return version


def check_known(settings: ConnectionSettings, version: int) -> None:
    """Refuse the schema of a newer Headrace."""
    newest = migrations()[-1][0]
    if version > newest:
        raise BadConfig(
            f"schema {settings.schema!r} at {settings.address} has layout {version}, this Headrace knows {newest};"
            " use a newer Headrace"
        )


def schema_of(settings: ConnectionSettings) -> Schema:
    """The present and the known layout of a schema, without changing anything; blocks, so not for an event loop."""
    try:
        connection = connect(settings)
    except psycopg.Error as error:
        raise connect_error(error, settings.address) from error
    with translate_errors(settings.address), closing(connection):
        version = version_now(connection)
    check_known(settings, version)
    return schema_at(version or None, migration_names())


def version_now(connection: Connection) -> int:
    """The number of the last step that was applied; 0 before the first."""
    found = connection.execute("SELECT to_regclass('store')").fetchone()
    if found is None or found[0] is None:
        return 0
    layout = connection.execute("SELECT layout FROM store").fetchone()
    return 0 if layout is None else int(layout[0])
