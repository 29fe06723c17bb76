"""Paths, URLs and texts that nothing can have: one sentence and exit code 2, whichever command is given them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from tests.cli.support import COMMAND, RUN_S, environment, run, with_store
from tests.support.play import Play

LONG = "x" * 5_000
DEEP = "/tmp/" + "/".join(["x" * 200] * 25)
HALF = "a\udcff"
"""What Python makes of a byte that is no UTF-8 (`$'a\\xff'`)."""

URLS = [
    f"sqlite:///{LONG}",
    f"sqlite:///{DEEP}",
    f"sqlite:///{LONG}?profile=fast",
    "sqlite:///a%00b.db",
    "sqlite:///%00",
    "redis://h%00st",
    "redis://me:hunter%002@localhost",
    "redis+cluster://h%00st,other",
    "postgres://h%00st/jobs",
    "postgres://me:hunter%002@localhost/jobs",
    "postgres://localhost/jobs?schema=a%00b",
]
ASKED = [("queues",), ("enqueue", "send"), ("migrate",), ("migrate", "--check"), ("doctor",), ("pipeline", "jobs")]


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
@pytest.mark.parametrize("url", URLS, ids=lambda url: url[:40])
def test_a_url_that_no_store_can_have_is_refused_in_one_sentence(
    words: tuple[str, ...], url: str, tmp_path: Path
) -> None:
    ran = run(*words, "--url", url, cwd=tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert (ran.err.startswith("headrace: "), ran.err.count("\n"), len(ran.err) < 400) == (True, 1, True)
    assert "hunter" not in ran.err
    assert [*tmp_path.iterdir()] == []


FILES = ["", ".", "/", "..", LONG, DEEP, "y" * 256]
PLACES: list[tuple[str, ...]] = [
    ("feeds", "tail", "board", "--cursor-file"),
    ("enqueue", "send", "--payload-file"),
    ("enqueue", "send", "--from"),
    ("feeds", "publish", "board", "--payload-file"),
    ("feeds", "publish", "board", "--from"),
]


@pytest.mark.parametrize("words", PLACES, ids=" ".join)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path[:9] or "nothing")
def test_a_path_that_no_file_can_have_is_refused_in_one_sentence(
    words: tuple[str, ...], path: str, file_url: str, tmp_path: Path
) -> None:
    async def board(store: Store) -> None:
        from headrace.model.feed import FeedName

        await store.feeds.create(FeedName("board"), instance="test")

    with_store(file_url, board)

    ran = run(*words[:-1], f"{words[-1]}={path}", url=file_url, cwd=tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert (ran.err.startswith("headrace: "), ran.err.count("\n"), len(ran.err) < 400) == (True, 1, True)


def test_a_cursor_file_whose_name_leaves_no_room_for_the_file_beside_it_is_refused_at_once(
    file_url: str, tmp_path: Path
) -> None:
    with_store(file_url, lambda store: store.queues.configure(Queue("mail"), {"priority": 5}))

    ran = run("feeds", "tail", "--queue", "mail", "--cursor-file", "c" * 253, url=file_url, cwd=tmp_path)

    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize(
    "words",
    [
        ("pipeline", "jobs", "--dir"),
        ("pipeline", "report", "--dir"),
        ("pipeline", "history", "--once", "--dir"),
        ("pipeline", "ingest", "--kind", "send", "--queue", "mail", "--refused", "x", "--dir"),
        ("pipeline", "ingest", "--kind", "send", "--queue", "mail", "--name", "a"),
        ("demo", "--dir"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("path", [LONG, DEEP])
def test_a_folder_or_a_source_that_cannot_be_is_refused_before_spark_is_started(
    words: tuple[str, ...], path: str, file_url: str, tmp_path: Path
) -> None:
    with_store(file_url, lambda store: Play(store, tenant="default").enqueue("a"))

    ran = run(
        *words,
        path,
        *(["source.csv"] if words[-1] == "--dir" and "ingest" in words else []),
        url=file_url,
        cwd=tmp_path,
    )

    assert (ran.code, ran.out) == (2, "")
    assert (ran.err.startswith("headrace: "), ran.err.count("\n"), len(ran.err) < 500) == (True, 1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("enqueue", "send", "--idempotency-key", HALF),
        ("enqueue", "send", "--idempotency-key", HALF, "--id", "a"),
        ("enqueue", "send", "--idempotency-key", LONG),
        ("enqueue", "send", "--id", HALF),
        ("enqueue", "send", "--tag", HALF),
        ("enqueue", HALF),
        ("enqueue", "send", "--header", f"a={HALF}"),
        ("enqueue", "send", f"name={HALF}"),
        ("jobs", "show", HALF),
        ("jobs", "cancel", HALF),
        ("jobs", "result", f"{HALF}…"),
        ("jobs", "show", LONG),
        ("dead", "list", "--kind", HALF),
        ("dead", "list", "--id", HALF),
        ("dead", "replay", "--error-class", HALF),
        ("jobs", "list", "--cursor", HALF),
        ("worker", HALF),
        ("worker", LONG),
        ("queues", "show", HALF),
        ("feeds", "items", HALF),
    ],
    ids=lambda words: " ".join(words).encode("ascii", "replace").decode()[:60],
)
def test_half_a_character_and_text_without_end_are_refused_in_one_sentence(words: tuple[str, ...], url: str) -> None:
    with_store(url, lambda store: Play(store, tenant="default").enqueue("a"))

    ran = run(*words, url=url)

    assert (ran.code, ran.out) == (2, "")
    assert (ran.err.startswith("headrace: "), ran.err.count("\n"), len(ran.err) < 400) == (True, 1, True)


def test_the_doctor_and_the_version_work_from_a_source_tree(file_url: str, tmp_path: Path) -> None:
    """Without site-packages nothing is installed: the sources, and what they need, are but on the path."""
    with_store(file_url, lambda store: store.queues.configure(Queue("mail"), {"priority": 5}))
    needed = tmp_path / "needed"
    needed.mkdir()
    for folder in {Path(each) for each in sys.path if each.endswith("site-packages")}:
        for entry in folder.iterdir():
            if not entry.name.endswith((".dist-info", ".pth", ".egg-info")) and not entry.name.startswith(
                ("headrace", "_")
            ):
                (needed / entry.name).symlink_to(entry)
    source = str(Path(__file__).parents[2] / "src")
    env = environment(file_url, {"PYTHONPATH": os.pathsep.join([source, str(needed)])})
    command = [sys.executable, "-S", *COMMAND[1:]]

    completed = subprocess.run(
        [*command, "doctor", "--json"], env=env, cwd=tmp_path, capture_output=True, timeout=RUN_S, check=False
    )
    version = subprocess.run(
        [*command, "--version"], env=env, cwd=tmp_path, capture_output=True, timeout=RUN_S, check=False
    )

    assert (completed.returncode, completed.stderr) == (0, b"")
    [versions] = [each["found"] for each in json.loads(completed.stdout)["checks"] if each["check"] == "versions"]
    assert versions.startswith("headrace (not installed: a source tree), Python 3.")
    assert (version.returncode, version.stdout) == (0, b"headrace (not installed: a source tree)\n")
