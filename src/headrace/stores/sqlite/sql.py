"""Reads the SQL of the store once, when this module is imported."""

from functools import cache

from headrace.stores.package_files import SqlFiles

_FILES = SqlFiles("headrace.stores.sqlite")

migrations = cache(_FILES.migrations)
migration_names = _FILES.migration_names
statement_names = _FILES.statement_names


@cache
def sql(name: str) -> str:
    """The statement of that name in `sql/<table>.sql`."""
    return _FILES.statement(name)
