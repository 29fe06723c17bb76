"""The SQL of the store by name: what psycopg is handed, and the steps of the schema."""

from functools import cache

from headrace.stores.package_files import Edit, SqlFiles

_FILES = SqlFiles("headrace.stores.postgres")
migrations = _FILES.migrations
migration_names = _FILES.migration_names


@cache
def sql(name: str) -> bytes:
    """The named statement."""
    return _FILES.statement(name).encode()


def edit(change: Edit) -> None:
    """Take every statement from now on through `change`: how tests plant a fault."""
    _FILES.edit(change)
    sql.cache_clear()
