"""`headrace migrate`: brings a store to this version, or says with `--check` what is left to do."""

import sqlite3
from contextlib import closing
from urllib.parse import urlsplit

from headrace.stores.redis.library import read_library
from tests.cli.support import run
from tests.support.servers import redis_server


def test_a_check_lists_the_steps_and_changes_nothing_and_migrating_takes_them(file_url: str) -> None:
    shown = file_url.partition("?")[0]

    checks = [run("migrate", "--check", url=file_url) for _ in range(2)]
    migrated, whole = run("migrate", url=file_url), run("migrate", "--check", url=file_url)

    assert [(ran.code, ran.err) for ran in checks] == [(1, "")] * 2
    assert checks[1].lines == [
        f"{shown}: no store yet; 1 step to take",
        "  0001_initial",
    ]
    assert (migrated.code, migrated.lines) == (
        0,
        [f"{shown}: up to date (schema 1); 1 step taken"],
    )
    assert (whole.code, whole.lines) == (0, [f"{shown}: up to date (schema 1)"])


def test_json_tells_the_same(file_url: str) -> None:
    check, migrated = run("migrate", "--check", "--json", url=file_url), run("migrate", "--json", url=file_url)

    assert (check.code, check.document) == (1, {"found": None, "known": 1, "pending": ["0001_initial"]})
    document = migrated.document
    assert (migrated.code, document["before"]["found"], document["after"]["found"]) == (0, None, 1)
    assert document["steps"] == ["0001_initial"]


def test_the_functions_of_a_redis_are_loaded() -> None:
    url, name = redis_server().url, read_library().name
    redis_server().ask("FUNCTION", "FLUSH")

    check, migrated = run("migrate", "--check", url=url), run("migrate", "--json", url=url)

    assert (check.code, check.lines[1:]) == (1, [f"  load {name}"])
    assert (migrated.code, migrated.document["after"]["library"], migrated.document["after"]["pending"]) == (
        0,
        name,
        [],
    )


def test_a_terminal_shows_it_as_well(file_url: str) -> None:
    ran = run("migrate", url=file_url, terminal=True)

    assert (ran.code, "1 step taken" in ran.out.replace("\n", " ")) == (0, True)


def test_a_store_of_a_newer_version_and_one_in_memory_are_refused(file_url: str) -> None:
    with closing(sqlite3.connect(urlsplit(file_url).path.removeprefix("/"))) as connection:
        connection.execute("PRAGMA user_version = 999")

    newer, memory = run("migrate", url=file_url), run("migrate", "--json", url="memory://")

    assert (newer.code, newer.out) == (2, "")
    assert newer.err.rstrip().endswith("has schema 999, this Headrace knows 1; use a newer Headrace for this file")
    assert (memory.code, memory.out) == (2, "")
