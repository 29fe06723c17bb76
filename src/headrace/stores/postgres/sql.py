"""The SQL of the store: one statement to a file, read once."""

from collections.abc import Callable
from functools import cache
from importlib.resources import files

Edit = Callable[[str, str], str]
"""Takes the name of a file and its text, returns the text to use."""

_FOLDER = files("headrace.stores.postgres") / "sql"


def _as_it_is(name: str, text: str) -> str:  # noqa: ARG001 - an edit that edits nothing
    return text


_edits: list[Edit] = [_as_it_is]


def edit(change: Edit) -> None:
    """Have every file read from now on through `change`: how tests plant a fault."""
    _edits[:] = [change]
    sql.cache_clear()
    migrations.cache_clear()


def _text(name: str) -> str:
    return _edits[0](name, (_FOLDER / f"{name}.sql").read_text("utf-8"))


@cache
def sql(name: str) -> bytes:
    """The statement in `sql/<name>.sql`, without its comments so that the server has less to read."""
    lines = _text(name).splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).encode()


@cache
def migrations() -> list[tuple[int, str]]:
    """The statements that make and change the schema, with their numbers, in order. They are never edited."""
    return [(int(name.partition("_")[0]), _text(f"migrate/{name}")) for name in migration_names()]


def migration_names() -> list[str]:
    """The steps of the schema by name, each opened by its number, in order."""
    found = (each.name for each in (_FOLDER / "migrate").iterdir())
    return sorted(name.removesuffix(".sql") for name in found if name.endswith(".sql"))
