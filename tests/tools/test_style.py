"""Promises of the tree itself: trusted locks, SQL and Lua with headers, extras."""

import ast
import re
import sqlite3
import tomllib
from itertools import takewhile
from pathlib import Path

import pytest

from headrace.stores.package_files import split_statements
from headrace.stores.redis.library import read_uses

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
SQL_ROOT = ROOT / "src/headrace"
SQL_FILES = sorted(SQL_ROOT.rglob("*.sql"))

LUA_ROOT = ROOT / "src/headrace/stores/redis/lua"
LUA_FILES = sorted(LUA_ROOT.rglob("*.lua"))

EXTRAS = {
    "redis",
    "postgres",
    "spark",
    "delta",
    "connect",
    "cli",
    "metrics",
    "tracing",
    "http",
    "service",
    "all",
    "dev",
}


NOT_YET: set[str] = set()
"""Extras whose room is still to be built."""
UNSEEN = {"pandas": "pyspark imports it wherever rows come from Python or go there"}
"""What an extra installs for another package to import, with the reason."""


SPELLED = {"opentelemetry-api": "opentelemetry"}
"""Packages whose module has another name."""


def packages(requirements: list[str]) -> set[str]:
    """The names of what is required, other extras of this project left out."""
    names = {re.match(r"[a-z0-9-]+", each.lower()) for each in requirements}
    return {name.group() for name in names if name is not None} - {"headrace"}


def imported_modules() -> set[str]:
    """What the library imports, by the first part of its name."""
    trees = [ast.parse(file.read_text()) for file in (ROOT / "src").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    named = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module is not None]
    return {name.partition(".")[0] for name in named}


def pyproject() -> dict[str, dict[str, dict[str, list[str]]]]:
    loaded: dict[str, dict[str, dict[str, list[str]]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return loaded


def requirements(lock: Path) -> list[str]:
    """The entries of a lock, each with its hashes, comments left out."""
    lines = [line for line in lock.read_text().splitlines() if line.strip() and not line.strip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def postgres_statements(sql: str) -> list[str]:
    """The statements of a script as PostgreSQL cuts them: a semicolon in a comment, a text or a body ends nothing."""
    quiet = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$", "quiet", sql, flags=re.DOTALL)
    return [each for each in quiet.split(";") if each.replace("quiet", "").strip()]


def named_statements(file: Path) -> list[str]:
    """The statements of a file of SQL, each with its comments; the whole file where it names none."""
    sql = file.read_text()
    return list(split_statements(sql).values()) if "-- name: " in sql else [sql]


def statements(sql: str) -> list[str]:
    """The statements of a script, split by SQLite itself."""
    found: list[str] = []
    current = ""
    for piece in re.split(r"(?<=;)", sql):
        current += piece
        if current.rstrip().endswith(";") and sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found + [current] * bool(re.sub(r"--[^\n]*|/\*.*?\*/", "", current, flags=re.DOTALL).strip())


def test_there_is_a_lock_for_building_for_developing_and_for_everything() -> None:
    assert [lock.name for lock in LOCKS] == ["all.txt", "build.txt", "dev.txt"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_locked_package_has_one_exact_version_and_a_hash(lock: Path) -> None:
    entries = requirements(lock)

    assert entries
    assert [
        entry for entry in entries if not re.match(r"[a-z0-9._-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", entry)
    ] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_address_no_host_and_no_path_of_a_machine(lock: Path) -> None:
    telling = re.compile(r"://|(^|[\s=])/|--(extra-)?index|--find-links|--trusted-host|\b(localhost|pypi\.org)\b")

    assert [line for line in lock.read_text().splitlines() if telling.search(line)] == []


def test_the_locks_agree_on_every_version_they_share() -> None:
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, wanted in re.findall(r"^([a-z0-9._-]+)==([^\n]*?) *\\$", lock.read_text(), flags=re.MULTILINE):
            versions.setdefault(f"{name} {wanted.partition(';')[2].strip()}", set()).add(
                wanted.partition(";")[0].strip()
            )

    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_the_build_lock_pins_what_installs_a_source_package() -> None:
    names = {entry.split("==")[0] for entry in requirements(ROOT / "requirements/build.txt")}

    assert {"pip", "setuptools", "wheel"} <= names


def test_every_driver_and_program_has_its_extra() -> None:
    assert set(pyproject()["project"]["optional-dependencies"]) == EXTRAS


def test_the_extra_all_holds_every_extra_a_user_may_want() -> None:
    (everything,) = pyproject()["project"]["optional-dependencies"]["all"]
    named = everything.removeprefix("headrace[").removesuffix("]").split(",")

    assert set(named) == EXTRAS - {"all", "dev"} - NOT_YET


def test_the_extra_all_installs_only_what_is_imported() -> None:
    extras = pyproject()["project"]["optional-dependencies"]
    wanted = {name for extra in EXTRAS - {"all", "dev"} - NOT_YET for name in packages(extras[extra])}

    imported = imported_modules()
    unseen = {name for name in wanted if SPELLED.get(name, name.replace("-", "_")) not in imported}

    assert unseen == set(UNSEEN)


def test_an_extra_that_is_not_in_all_is_one_of_which_nothing_is_imported() -> None:
    extras = pyproject()["project"]["optional-dependencies"]

    assert {name for extra in NOT_YET for name in packages(extras[extra])} & imported_modules() == set()


def test_there_are_sql_files_where_a_driver_keeps_them() -> None:
    folders = [folder for folder in SQL_ROOT.rglob("sql") if folder.is_dir() and any(folder.parent.glob("*.py"))]

    assert [folder for folder in folders if not list(folder.rglob("*.sql"))] == []


@pytest.mark.parametrize("file", SQL_FILES, ids=lambda file: str(file.relative_to(SQL_ROOT)))
def test_a_sql_statement_opens_with_its_purpose_and_is_one(file: Path) -> None:
    cut = postgres_statements if "postgres" in file.parts else statements

    named = named_statements(file)

    assert named
    assert [sql for sql in named if not re.match("-- [A-Z]", sql)] == []
    assert [sql for sql in named if len(cut(sql)) != 1] == []


@pytest.mark.parametrize("file", LUA_FILES, ids=lambda file: str(file.relative_to(LUA_ROOT)))
def test_a_lua_file_opens_with_its_purpose_and_an_operation_with_what_it_takes_and_answers(file: Path) -> None:
    head = list(takewhile(lambda line: line.startswith("--"), file.read_text().splitlines()))

    assert head
    assert re.match("-- [A-Z].*", head[0])
    if "parts" not in file.relative_to(LUA_ROOT).parts:
        words = [line.removeprefix("--").split()[0] for line in head if line.strip("- ")]
        assert {"keys", "args", "answers"} <= set(words)


@pytest.mark.parametrize("file", LUA_FILES, ids=lambda file: str(file.relative_to(LUA_ROOT)))
def test_a_lua_file_names_exactly_the_parts_that_it_uses(file: Path) -> None:
    parts = {each.stem for each in (LUA_ROOT / "parts").glob("*.lua")}
    code = re.sub(r"--[^\n]*|'(?:[^'\\]|\\.)*'", "", file.read_text())

    used = {name for name in parts if re.search(rf"(?<![\w.]){name}\.", code)}

    assert set(read_uses(file.read_text())) == used - ({file.stem} if file.parent.name == "parts" else set())


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("", 0),
        ("-- only a comment; with a semicolon\n", 0),
        ("SELECT 1", 1),
        ("-- why; and how\nSELECT ';' AS a;\n", 1),
        ("SELECT 1; -- the end\n", 1),
        ("SELECT 1;\nSELECT 2;\n", 2),
        ("SELECT 1;\nSELECT 2", 2),
        ("CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; DELETE FROM c; END;\n", 1),
    ],
)
def test_statements_are_counted_as_sqlite_reads_them(sql: str, count: int) -> None:
    assert len(statements(sql)) == count


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("", 0),
        ("-- only a comment; with a semicolon\n", 0),
        ("-- why; and how\nSELECT ';', 'it''s;' AS a;\n", 1),
        ("SELECT 1;\nSELECT 2", 2),
        ("CREATE FUNCTION f() RETURNS int AS $body$ BEGIN RETURN 1; END; $body$ LANGUAGE plpgsql;\n", 1),
        ("DO $$ BEGIN PERFORM 1; END $$; SELECT 1;", 2),
    ],
)
def test_statements_are_counted_as_postgres_reads_them(sql: str, count: int) -> None:
    assert len(postgres_statements(sql)) == count


def test_continuous_integration_runs_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci/run"

    assert script.stat().st_mode & 0o111
    assert re.findall(r"^make .*$", script.read_text(), flags=re.MULTILINE) == ["make test"]


def test_every_make_target_that_a_reader_may_want_is_in_the_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):.*## ", makefile, flags=re.MULTILINE))

    assert {"help", "setup", "servers", "check", "test", "demo", "bench", "proof", "docs", "lock", "clean"} == targets


def test_every_module_opens_with_one_sentence() -> None:
    modules = [file for folder in ("src", "tools") for file in (ROOT / folder).rglob("*.py") if file.stat().st_size]

    assert [str(file.relative_to(ROOT)) for file in modules if not file.read_text().startswith('"""')] == []
