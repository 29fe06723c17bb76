"""The SQL of the store: one statement to a file, read once."""

from functools import cache
from importlib.resources import files

_FOLDER = files("headrace.stores.sqlite") / "sql"


@cache
def sql(name: str) -> str:
    """The statement in `sql/<name>.sql`, without its comments so that SQLite's statement cache has less to compare."""
    text = (_FOLDER / f"{name}.sql").read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


@cache
def migrations() -> list[tuple[int, str]]:
    """The statements that make and change the schema, with their numbers, in order. They are never edited."""
    return [(int(name.partition("_")[0]), sql(f"migrate/{name}")) for name in migration_names()]


def migration_names() -> list[str]:
    """The steps of the schema by name, each opened by its number, in order."""
    found = (each.name for each in (_FOLDER / "migrate").iterdir())
    return sorted(name.removesuffix(".sql") for name in found if name.endswith(".sql"))
