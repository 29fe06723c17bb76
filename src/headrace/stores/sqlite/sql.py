"""The SQL of the store: one statement to a file, all of them read when this is imported."""

from functools import cache

from headrace.stores.package_files import read_folder

_TEXTS = read_folder("headrace.stores.sqlite", "sql", ".sql")
_MIGRATE = "migrate/"


@cache
def sql(name: str) -> str:
    """The statement in `sql/<name>.sql`, without its comments so that SQLite's statement cache has less to compare."""
    return "\n".join(line for line in _TEXTS[name].splitlines() if not line.startswith("--"))


@cache
def migrations() -> list[tuple[int, str]]:
    """The statements that make and change the schema, with their numbers, in order. They are never edited."""
    return [(int(name.partition("_")[0]), sql(f"{_MIGRATE}{name}")) for name in migration_names()]


def migration_names() -> list[str]:
    """The steps of the schema by name, each opened by its number, in order."""
    return [name.removeprefix(_MIGRATE) for name in _TEXTS if name.startswith(_MIGRATE)]
