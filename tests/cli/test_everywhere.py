"""Every command on a file and on a server, in a terminal and piped, for people and for programs: a project's day."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Ran, run
from tests.cli.tree import functions

APART = {
    ("demo",),
    ("serve",),
    *(("token", name) for name in ("make", "key", "show")),
    *(
        ("pipeline", name)
        for name in (
            "history",
            "stats",
            "errors",
            "usage",
            "audit",
            "compact",
            "fleet",
            "ingest",
            "map",
            "report",
            "changes",
        )
    ),
    *(("pipeline", name) for name in ("replay", "backfill")),
}
"""They start Spark or a service, and are tested beside the pipeline and the service."""

DAY: tuple[tuple[tuple[str, ...], tuple[str, ...], dict[str, Any], str], ...] = (
    # the command, what is given to it, what programs are told of it, and what people read
    (("init",), (), {"written": ["app.py", "test_app.py", "pyproject.toml"]}, "wrote app.py"),
    (("migrate",), (), {}, ""),
    (("pipeline", "jobs"), (), {"events": 0}, "there are no events yet"),
    (("enqueue",), ("greet", "name=Ada", "--id", "one"), {"id": "one", "status": "created"}, "job one was created"),
    (("enqueue",), ("count_words", "path=none", "--id", "two"), {"status": "created"}, "job two was created"),
    (("enqueue",), ("count_words", "path=none", "--id", "three"), {"status": "created"}, "job three was created"),
    (("enqueue",), ("greet", "name=Bo", "--id", "four", "--delay", "1h"), {"status": "created"}, "job four"),
    (("enqueue",), ("greet", "name=Cy", "--id", "five", "--delay", "1h"), {"status": "created"}, "job five"),
    (
        ("worker",),
        ("--until-idle", "--log-level", "error"),
        {"claimed": 5, "done": 1, "retried": 2, "dead": 2},
        "1 done, 2 retried, 2 dead",
    ),
    (("workers",), (), {}, "default"),
    (("queues", "list"), (), {}, "1 queue: 2 waiting (2 later)"),
    (("queues", "show"), ("default",), {"version": 0}, "max_attempts"),
    (("queues", "pause"), ("default",), {}, "paused"),
    (("queues", "resume"), ("default",), {}, "resumed"),
    (("queues", "configure"), ("default", "timeout=30s"), {"version": 3}, "30"),
    (("queues", "configure"), ("spare", "--new", "paused=true"), {}, "spare"),
    (("queues", "delete"), ("spare", "--yes"), {"deleted": True}, "spare"),
    (("jobs", "list"), (), {}, "five"),
    (("jobs", "search"), ("four",), {}, "four"),
    (("jobs", "show"), ("one",), {"id": "one", "state": "done"}, "Hello, Ada!"),
    (("jobs", "result"), ("one",), {"id": "one", "result": "Hello, Ada!"}, "Hello, Ada!"),
    (("jobs", "cancel"), ("four",), {"statuses": {"cancelled": 1}}, "cancelled"),
    (("jobs", "remove"), ("four",), {"statuses": {"removed": 1}}, "removed"),
    (("dead", "list"), (), {}, "FileNotFoundError"),
    (("dead", "show"), ("two",), {"id": "two", "reason": "attempts"}, "FileNotFoundError"),
    (("dead", "purge"), ("three", "--yes"), {"statuses": {"purged": 1}}, "purged"),
    (("dead", "replay"), ("two", "--delay", "1h"), {"statuses": {"replayed": 1}}, "replayed"),
    (("queues", "purge"), ("default", "--yes"), {"purged": 2}, "2"),
    (("feeds", "create"), ("board", "--type", "sorted"), {"feed": "board", "type": "sorted"}, "'board' of tenant"),
    (("feeds", "configure"), ("board", "items_max=9"), {"version": 1}, "→ 9"),
    (("feeds", "publish"), ("board", "title=Soon", "--id", "a"), {"id": "a", "status": "published"}, "item a was"),
    (("feeds", "items"), ("board",), {"feed": "board", "cursor": None}, '{"title":"Soon"}'),
    (("feeds", "move"), ("board", "a", "--first"), {"status": "unchanged"}, "is already there"),
    (("feeds", "tail"), ("board", "--limit", "1"), {"event": "present", "item": {"title": "Soon"}}, "present"),
    (("feeds", "list"), (), {"more": False}, "1 feed with 1 item"),
    (("feeds", "retract"), ("board", "a"), {"statuses": {"retracted": 1}}, "retracted"),
    (("feeds", "delete"), ("board", "--yes"), {"deleted": True}, "'board' was deleted"),
    (("pipeline", "freshness"), (), {"freshness": []}, "there is no table in headrace-data yet"),
    (("pipeline", "views"), (), {}, "TEMPORARY VIEW `jobs_greet` AS SELECT"),
    (("doctor",), ("--repair",), {}, "every record and every counter"),
)


def test_the_day_knows_every_command() -> None:
    assert {words for words, *_ in DAY} | APART == set(functions())


@pytest.mark.parametrize("for_programs", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("terminal", [False, True], ids=["piped", "terminal"])
def test_every_command_works_here(url: str, tmp_path: Path, terminal: bool, for_programs: bool) -> None:
    """T36: what there is to do in a project, from its first job to its last."""
    project = tmp_path / "project"
    project.mkdir()
    for words, arguments, facts, text in DAY:
        # Without a terminal a worker takes it that a program reads along.
        option = ["--json"] if for_programs else ["--log", "text"] if words == ("worker",) else []

        ran = run(*words, *arguments, *option, url=url, cwd=project, terminal=terminal)

        assert ran.code == 0, (words, ran)
        if for_programs:
            document = document_of(words, ran)
            assert {name: document.get(name) for name in facts} == facts, words
        else:
            assert text in ran.out, (words, ran)


def document_of(words: tuple[str, ...], ran: Ran) -> dict[str, Any]:
    """The one document; a worker logs before it, and a terminal shows that as well."""
    if words == ("worker",):
        found: dict[str, Any] = json.loads(ran.lines[-1])
        return found
    document: dict[str, Any] = ran.document
    return document
