"""The SQL of the store: one statement to a file, all of them read when this is imported."""

from collections.abc import Callable
from functools import cache

from headrace.stores.package_files import read_folder

Edit = Callable[[str, str], str]
"""Takes the name of a file and its text, returns the text to use."""

_TEXTS = read_folder("headrace.stores.postgres", "sql", ".sql")
_MIGRATE = "migrate/"


def _as_it_is(name: str, text: str) -> str:  # noqa: ARG001 - an edit that edits nothing
    return text


_edits: list[Edit] = [_as_it_is]


def edit(change: Edit) -> None:
    """Take every text from now on through `change`: how tests plant a fault."""
    _edits[:] = [change]
    sql.cache_clear()
    migrations.cache_clear()


def _text(name: str) -> str:
    return _edits[0](name, _TEXTS[name])


@cache
def sql(name: str) -> bytes:
    """The statement in `sql/<name>.sql`, without its comments so that the server has less to read."""
    lines = _text(name).splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).encode()


@cache
def migrations() -> list[tuple[int, str]]:
    """The statements that make and change the schema, with their numbers, in order. They are never edited."""
    return [(int(name.partition("_")[0]), _text(f"{_MIGRATE}{name}")) for name in migration_names()]


def migration_names() -> list[str]:
    """The steps of the schema by name, each opened by its number, in order."""
    return [name.removeprefix(_MIGRATE) for name in _TEXTS if name.startswith(_MIGRATE)]
