"""Promises of `headrace pipeline` before Spark is started: what is wrong, or not there, is told at once."""

import json
from pathlib import Path

import pytest

from headrace.cli.main import main
from tests.cli.support import run
from tests.cli.test_startup import imported
from tests.cli.tree import functions

NAMES = ("history", "jobs", "stats", "errors", "usage", "audit", "compact", "report", "replay", "backfill")
OTHERS = ("fleet", "ingest", "map", "views", "changes", "freshness")
"""They take something from elsewhere, and need no events."""
ONCE = ("history", "stats")
NEEDED = {"replay": ["--where", "true"], "backfill": ["--where", "true", "--name", "again"]}
"""What a command cannot do without."""
NOTHING = "there are no events yet; enqueue a first job with: headrace enqueue KIND"


@pytest.fixture
def here(file_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an empty store."""
    assert run("migrate", url=file_url).code == 0
    monkeypatch.setenv("HEADRACE_URL", file_url)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(name: str, *more: str) -> list[str]:
    return ["pipeline", name, *(["--once"] if name in ONCE else []), *NEEDED.get(name, []), *more]


def test_these_are_the_commands() -> None:
    assert {sub for group, *subs in functions() for sub in subs if group == "pipeline"} == {*NAMES, *OTHERS}


@pytest.mark.parametrize("name", NAMES)
def test_without_events_there_is_nothing_to_do_and_no_file_is_made(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = main(words(name)), capsys.readouterr()
    code_json, document = main(words(name, "--json")), capsys.readouterr()

    sentence = "there is no history in headrace-data; write one with: headrace pipeline history --once"
    assert (code, output.out, output.err) == (0, f"{sentence if name == 'compact' else NOTHING}\n", "")
    assert (code_json, document.err) == (0, "")
    assert isinstance(json.loads(document.out), dict)
    assert not (here / "headrace-data").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (words("jobs", "--dir", "hdfs://name/x"), "'hdfs://name/x' is on HDFS, which is not supported"),
        (words("report", "--dir", "s3://bucket/x"), "s3://bucket/x is on object storage, and a folder on a local disk"),
        (words("jobs", "--dir", "a*"), "--dir 'a*' holds one of * ? [ ] { } \\, which Spark takes for a pattern"),
        (words("jobs", "--origin", "history"), "there is no history in headrace-data; write one with: headrace"),
        (words("jobs", "--queue", "none"), "there is no queue 'none' of any tenant"),
        (words("jobs", "--conf", "spark"), "--conf must be NAME=VALUE; found 'spark'"),
        (words("jobs", "--url", "memory://"), "a store in memory ends with the command"),
        (words("history", "--hold", "--no-consumer"), "--hold needs a consumer, and --no-consumer was given"),
        (words("history", "--every", "soon"), "every 'soon' is not a valid duration"),
        (words("replay", "--spread", "soon"), "spread 'soon' is not a valid duration"),
        (words("replay", "--queue", "none"), "there is no queue 'none' of any tenant"),
        (words("backfill", "--delay", "366d", "--spread", "1d"), "delay and spread together are more than a year"),
        (words("backfill", "--name", "a/b"), "name is 'a/b'; give 1 to 80 printable characters other than '/'"),
        (words("backfill", "--to-queue", "a b"), "queue name 'a b' is not a name"),
        (["pipeline", "changes"], "changes need the table stats, which"),
        (["pipeline", "changes", "--until", "soon"], "until 'soon' is"),
        (["pipeline", "stats", "--origin", "history"], "--origin is for --once; live statistics follow the journal"),
    ],
    ids=lambda arguments: arguments if isinstance(arguments, str) else " ".join(arguments[1:]),
)
def test_what_cannot_be_is_one_sentence(
    arguments: list[str], sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = main(arguments), capsys.readouterr()

    assert (code, output.out) == (2, "")
    assert output.err.startswith(f"headrace: {sentence}"), output.err


def test_the_folder_may_come_from_the_environment_and_the_project(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "pyproject.toml").write_text('[tool.headrace.pipeline]\ndir = "of-project"\nmaster = "local[1]"\n')

    main(words("compact"))
    of_project = capsys.readouterr().out
    monkeypatch.setenv("HEADRACE_PIPELINE_DIR", "of-environment")
    main(words("compact"))
    of_environment = capsys.readouterr().out

    assert ("in of-project;" in of_project, "in of-environment;" in of_environment) == (True, True)


def test_help_and_refusals_bring_no_spark() -> None:
    helped, refused = imported("pipeline", "jobs", "--help"), imported("pipeline", "jobs", "--url", "sqlite:///none.db")

    heavy = {"pyspark", "pyarrow", "pandas", "py4j", "rich.progress"}
    assert "headrace.cli.pipeline.tables" in helped & refused
    assert (heavy & helped, heavy & refused) == (set(), set())


def test_views_print_the_sql_of_the_store_and_of_each_kind_of_the_app(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "app_of_views.py").write_text(
        "from headrace import App\n\napp = App()\n\n\n@app.job\ndef invoice(order: int) -> float: ...\n"
    )
    monkeypatch.syspath_prepend(here)

    codes = [main(["pipeline", "views"]), main(["pipeline", "views", "app_of_views:app"])]
    output = capsys.readouterr()

    sql = output.out.splitlines()
    assert codes == [2, 0]
    assert (
        "views need an app, whose annotations give the types; name it as in: headrace pipeline views app:app"
        in output.err
    )
    assert sql[0].startswith("CREATE OR REPLACE TEMPORARY VIEW jobs USING headrace OPTIONS (url 'sqlite:///")
    assert "from_json(concat('{\"value\":', payload, '}'), 'value STRUCT<`order`: BIGINT>, corrupt STRING'" in sql[-1]
    assert len(sql) == 8
