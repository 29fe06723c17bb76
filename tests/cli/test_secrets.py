"""The promise of secrets: no command ever shows the user, the password or a secret option of its URL."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.stores.redis.durability import rules
from tests.cli.background import until
from tests.cli.support import run, start
from tests.cli.tree import functions, parameters
from tests.support.process import free_port
from tests.support.servers import redis_server

USER, PASSWORD, OPTION = "mallory-private", "hunter2-private", "swordfish-private"
ARGUMENTS: dict[tuple[str, ...], list[str]] = {
    ("enqueue",): ["probe", "--no-app"],
    ("worker",): ["--register", "probe=echo", "--until-idle"],
    ("workers",): [],
    ("jobs", "list"): [],
    ("jobs", "search"): ["probe"],
    ("jobs", "show"): ["none"],
    ("jobs", "result"): ["none"],
    ("jobs", "cancel"): ["none"],
    ("jobs", "remove"): ["none", "--yes"],
    ("queues", "list"): [],
    ("queues", "show"): ["default"],
    ("queues", "pause"): ["default"],
    ("queues", "resume"): ["default"],
    ("queues", "configure"): ["default", "timeout=30s"],
    ("queues", "purge"): ["default", "--yes"],
    ("queues", "delete"): ["default", "--yes"],
    ("dead", "list"): [],
    ("dead", "show"): ["none"],
    ("dead", "replay"): ["--all", "--yes"],
    ("dead", "purge"): ["--all", "--yes"],
    ("feeds", "list"): [],
    ("feeds", "create"): ["probe"],
    ("feeds", "configure"): ["probe", "items_max=10"],
    ("feeds", "publish"): ["probe", "1", "--id", "one"],
    ("feeds", "items"): ["probe"],
    ("feeds", "move"): ["probe", "one", "--first"],
    ("feeds", "retract"): ["probe", "one"],
    ("feeds", "tail"): ["probe", "--for", "0.01"],
    ("feeds", "delete"): ["probe", "--yes"],
    ("doctor",): [],
    ("migrate",): [],
    ("serve",): [],
    # Spark is started only for what is there.
    ("pipeline", "history"): ["--once", "--queue", "none"],
    ("pipeline", "stats"): ["--once", "--queue", "none"],
    ("pipeline", "replay"): ["--where", "true", "--queue", "none"],
    ("pipeline", "backfill"): ["--where", "true", "--name", "again", "--queue", "none"],
    **{("pipeline", name): ["--queue", "none"] for name in ("jobs", "errors", "usage", "audit", "report")},
    ("pipeline", "ingest"): ["rows.csv", "--name", "rows", "--kind", "probe"],
    ("pipeline", "fleet"): ["app_of_secrets:app"],
    ("pipeline", "views"): ["app_of_secrets:app"],
    ("pipeline", "changes"): [],
    ("pipeline", "freshness"): ["--queue", "none"],
    ("pipeline", "map"): ["rows.csv", "--app", "app_of_secrets:app", "--kind", "probe", "--key", "n", "--name", "rows"],
}
"""Every command that takes a URL, with arguments that bring it as far as the store."""
LASTING = {("worker",), ("serve",)}
"""They run until they are stopped, and have tests of their own."""
SPARKED = {("pipeline", name) for name in ("ingest", "fleet", "map")}
"""Where the store is right they start Spark, and tests/pipeline looks at what that says."""
APP = "from headrace import App\n\napp = App()\n\n\n@app.job\ndef probe(n: int) -> None: ...\n"


def right(_: Path) -> str:
    redis_server().ask("ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *rules().split())
    return f"redis://{USER}:{PASSWORD}@127.0.0.1:{redis_server().port}"


def wrong(_: Path) -> str:
    redis_server().ask("ACL", "SETUSER", USER, "reset", "on", ">another", *rules().split())
    return f"redis://{USER}:{PASSWORD}@127.0.0.1:{redis_server().port}"


def unreachable(_: Path) -> str:
    return f"postgres://{USER}:{PASSWORD}@127.0.0.1:{free_port()}/jobs?sslpassword={OPTION}&passfile={OPTION}"


def unknown_option(_: Path) -> str:
    return f"redis://{USER}:{PASSWORD}@127.0.0.1:{redis_server().port}?password={OPTION}"


def torn(_: Path) -> str:
    """A password that should have been written with %2F: its halves look like a host and a database."""
    return f"postgres://{USER}:x/{PASSWORD}@127.0.0.1:{free_port()}/jobs"


def unreadable(_: Path) -> str:
    return f"redis://{USER}:[{PASSWORD}@127.0.0.1"


PLACES: dict[Callable[[Path], str], set[int]] = {
    right: {0, 1, 2},
    wrong: {2, 3},
    unreachable: {3},
    unknown_option: {2},
    torn: {2},
    unreadable: {2},
}
"""Where the URL leads, and how commands end there; 2 at the right one is for a queue that has jobs or is not there."""


def leaks(text: str) -> list[str]:
    return [secret for secret in (USER, PASSWORD, OPTION) if secret in text]


def test_every_command_with_a_url_is_in_the_table() -> None:
    assert {words for words in functions() if "url" in parameters(words)} <= {*ARGUMENTS}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_no_command_shows_what_is_secret_in_its_url(
    place: Callable[[Path], str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = place(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "app_of_secrets", raising=False)  # it stays where it was first started
    monkeypatch.setenv("HEADRACE_URL", url)
    (tmp_path / "rows.csv").write_text("n\n1\n")
    (tmp_path / "app_of_secrets.py").write_text(APP)
    found: dict[str, object] = {}

    for words in ARGUMENTS.keys() & functions().keys() - LASTING - (SPARKED if place is right else set()):
        for more in ([], ["--json"], ["--url", url], ["--help"]):
            code, text = main([*words, *ARGUMENTS[words], *more]), "".join(capfd.readouterr())
            if leaks(text) or (code not in PLACES[place] and more != ["--help"]):
                found[" ".join([*words, *more])] = code, text

    assert found == {}


@pytest.mark.parametrize(
    ("place", "form"), [(right, "text"), (right, "json"), (wrong, "json"), (unreachable, "text"), (torn, "json")]
)
def test_no_log_of_a_worker_shows_what_is_secret_in_its_url(
    place: Callable[[Path], str], form: str, tmp_path: Path
) -> None:
    url = place(tmp_path)
    if place is right:
        assert run("enqueue", "probe", "--no-app", url=url).code == 0

    ran = run("worker", *ARGUMENTS["worker",], "--no-wait", "--log", form, "--log-level", "debug", url=url)

    assert leaks(ran.out + ran.err) == []
    assert ran.code in PLACES[place]


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_log_of_a_worker_that_waits_for_its_store_shows_what_is_secret_in_its_url(form: str, tmp_path: Path) -> None:
    words = ("worker", *ARGUMENTS["worker",], "--log", form, "--log-level", "debug")

    with start(*words, url=unreachable(tmp_path)) as worker:
        text = until(worker, "store_lost")
        worker.terminate()
        out, err = worker.communicate(timeout=30)

    assert leaks(text + out + err) == []


def test_a_url_of_the_project_is_not_shown_either(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.headrace]\nurl = "{unreachable(tmp_path)}"\n')

    helped, ran = run("queues", "list", "--help", cwd=tmp_path), run("queues", cwd=tmp_path)

    assert (helped.code, ran.code) == (0, 3)
    assert leaks(helped.out + helped.err + ran.out + ran.err) == []
