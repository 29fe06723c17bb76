"""Reads the SQL and Lua files that lie beside a driver, a whole folder at once."""

import re
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable

_NAME_LINE = re.compile(r"^-- name: (\w+)$\n?", re.MULTILINE)
_PURPOSE = re.compile(r"-- [A-Z]")
_MIGRATIONS = "migrations/"

Edit = Callable[[str, str], str]
"""Takes the name of a statement and its text, returns the text to use."""


def read_folder(package: str, folder: str, suffix: str) -> dict[str, str]:
    """The texts of the files in a package's folder and in those below it, by path without the suffix, in order.

    A driver reads its folder when it is imported and never again: a program goes on with the files that it began with,
    also after the package was upgraded or removed under it.
    """
    return dict(sorted(_texts(files(package) / folder, "", suffix)))


def _texts(folder: Traversable, prefix: str, suffix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _texts(each, f"{prefix}{each.name}/", suffix)
        elif each.name.endswith(suffix):
            found.append((prefix + each.name.removesuffix(suffix), each.read_text("utf-8")))
    return found


class SqlFiles:
    """The SQL of a driver: `sql/<table>.sql` with the statements on a table, `sql/migrations/NNNN_<step>.sql` with its
    schema. A line `-- name: job_load` begins a statement; its purpose, arguments and answer follow as comments."""

    def __init__(self, package: str) -> None:
        self._statements: dict[str, str] = {}
        self._steps: dict[str, dict[str, str]] = {}
        self._edit: Edit = lambda _, text: text
        for file, text in read_folder(package, "sql", ".sql").items():
            named = split_statements(text)
            if file.startswith(_MIGRATIONS):
                self._steps[file.removeprefix(_MIGRATIONS)] = named
                continue
            for name in named.keys() & self._statements.keys():
                raise ValueError(f"sql/{file}.sql and another file name a statement {name!r}; rename one of them")
            self._statements |= named

    def statement(self, name: str) -> str:
        """The named statement without its comments: a server and a statement cache then have less to read."""
        return _strip_comments(self._edit(name, self._statements[name]))

    def statement_names(self) -> list[str]:
        """The names of all statements, migrations left out."""
        return list(self._statements)

    def migrations(self) -> list[tuple[int, list[str]]]:
        """The steps of the schema in order: the number of each and its statements; `edit` sees `migrations/<name>`."""
        return [
            (
                int(step.partition("_")[0]),
                [_strip_comments(self._edit(_MIGRATIONS + name, text)) for name, text in named.items()],
            )
            for step, named in self._steps.items()
        ]

    def migration_names(self) -> list[str]:
        """The steps of the schema by name, each opened by its number, in order."""
        return list(self._steps)

    def edit(self, change: Edit) -> None:
        """Pass every text through `change` from now on; tests plant faults with it."""
        self._edit = change


def split_statements(text: str) -> dict[str, str]:
    """The statements of a file by name, each with its comments. Refuses a name given twice and a missing purpose."""
    opening, *rest = _NAME_LINE.split(text)
    if _strip_comments(opening):
        raise ValueError(f"SQL stands before the first name: {opening.strip()!r}; begin it with '-- name: NAME'")
    named: dict[str, str] = {}
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        if name in named:
            raise ValueError(f"two SQL statements are named {name!r}; rename one of them")
        if not _PURPOSE.match(body):
            raise ValueError(f"SQL statement {name!r} has no purpose; add one as a comment below the name")
        named[name] = body
    return named


def _strip_comments(text: str) -> str:
    # Only whole lines from the first column: indented lines may belong to the body of a function.
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
