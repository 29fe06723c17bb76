"""Promises of an ingest of files: as a stream by the library, and by `headrace pipeline ingest`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.cli.main import main
from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.pipeline import (
    IngestReport,
    follow_rows,
    ingest_rows,
    read_ingest_report,
    read_refused,
    read_source,
)
from headrace.pipeline.flows.ingest.source import Source, find_source
from headrace.stores.catalog import all_tenants
from tests.pipeline.flows.ingest_runs import counts_of, is_untouched, quiet, url
from tests.pipeline.shared_stores import call_store
from tests.pipeline.writes import drain, events, waiting

__all__ = ["quiet", "url"]

SECONDS_MAX = 120
MAIL = Queue("mail")
Run = Callable[..., tuple[str, str]]


def put(folder: Path, name: str, numbers: range, odd: str = "") -> None:
    """A file of people, whose last line is `odd`."""
    folder.mkdir(exist_ok=True)
    lines = ["id,email", *(f"{number},p{number}@example.org" for number in numbers)]
    (folder / name).write_text("\n".join([*lines, *([odd] if odd else [])]) + "\n")


def test_a_stream_of_files_makes_a_job_of_each_row_once_over_restarts(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    """A row that is repeated in another file makes no job, and one that cannot be read is kept."""
    people, folder = tmp_path / "people", tmp_path / "flow"
    put(people, "1.csv", range(40), "41,a,b,c")

    def run() -> IngestReport:
        frame = read_source(spark, str(people), follow=True, corrupt=True)
        query = follow_rows(frame, url, {"key": "id"}, folder, name="people", queue="mail", kind="k", once=True)
        assert query.awaitTermination(SECONDS_MAX)
        return read_ingest_report(spark, url, query, name="people")

    first, drained, idle = run(), drain(url, MAIL), run()
    put(people, "2.csv", range(30, 50))
    second = run()

    assert (counts_of(first), drained) == ({"created": 40, "refused": {"bad_source": 1}}, 40)
    assert idle == first
    assert counts_of(second) == {"created": 50, "duplicate": 10, "refused": {"bad_source": 1}}
    assert (drain(url, MAIL), events(url, MAIL)["enqueued"]) == (10, 50)
    [row] = read_refused(spark, folder / "refused").collect()
    assert row.sentence == "the row cannot be read, its text is 41,a,b,c"
    assert second.refused_folder == str(folder / "refused")


def test_a_stream_that_does_not_fit_is_refused_before_it_starts(spark: SparkSession, url: str, tmp_path: Path) -> None:
    put(tmp_path / "people", "1.csv", range(3))
    frame = read_source(spark, str(tmp_path / "people"), follow=True)

    with pytest.raises(BadConfig, match="mapping key 'idd' names 'idd', which does not exist; columns are id, email"):
        follow_rows(frame, url, {"key": "idd"}, tmp_path / "flow", name="people", kind="k")
    with pytest.raises(
        BadConfig, match=r"the frame is not a stream; make it with spark.readStream, or use ingest_rows"
    ):
        follow_rows(spark.range(1), url, None, tmp_path / "flow", name="people", kind="k")
    with pytest.raises(BadConfig, match="the frame is a stream, which has no end; use follow_rows"):
        ingest_rows(frame, url, name="people", kind="k")

    assert is_untouched(url)


@pytest.mark.parametrize(
    ("name", "text", "schema", "odd"),
    [
        ("p.json", '{"id": 1}\n{"id": 3}\n{"id": 2, "to": "%s"\n', None, '{"id": 2, "to": "%s"'),
        ("p.csv", "id,to\n1,a\n3,b\ntwo,%s\n", "id bigint, to string", "two,%s"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_and_kept_whole_whatever_the_condition_says(
    spark: SparkSession, url: str, tmp_path: Path, name: str, text: str, schema: str | None, odd: str
) -> None:
    long = "x" * 500
    (tmp_path / name).write_text(text % long)

    frame = read_source(spark, str(tmp_path / name), schema=schema, where="id <> 3", corrupt=True)
    done = ingest_rows(frame, url, {"key": "id"}, name="p", kind="k", refused=tmp_path / "refused")

    assert counts_of(done) == {"created": 1, "refused": {"bad_source": 1}}
    [row] = read_refused(spark, tmp_path / "refused").collect()
    assert row.sentence == f"the row cannot be read, its text is {odd % long}"
    assert len(done.examples["bad_source"]) == 300


def test_sql_other_than_a_query_is_refused_and_not_run(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "p.csv", range(3))
    spark.range(1).createOrReplaceTempView("precious")

    rows = read_source(spark, str(tmp_path / "p.csv"), sql="with s as (select * from source) select id from s -- all;")
    with pytest.raises(BadConfig, match=r"^--sql 'DROP VIEW precious' is not a query; write a select, which calls the"):
        read_source(spark, str(tmp_path / "p.csv"), sql="DROP VIEW precious")
    with pytest.raises(BadConfig, match=r"^--sql 'with s as \(select 1\) insert .*' is not SQL that Spark understands"):
        read_source(spark, str(tmp_path / "p.csv"), sql="with s as (select 1) insert into precious select * from s")

    assert rows.count() == 3
    assert spark.catalog.dropTempView("precious")


@pytest.fixture
def run(
    quiet: None, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_URL", url)

    def run(*words: str, code: int = 0) -> tuple[str, str]:
        exit_code, printed = main(["pipeline", "ingest", *words]), capfd.readouterr()
        assert exit_code == code, printed
        return printed.out, printed.err

    return run


def document(printed: tuple[str, str]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(printed[0])
    return parsed


def test_the_command_ingests_files_reports_the_counts_and_keeps_refused_rows(
    run: Run, url: str, tmp_path: Path
) -> None:
    """T36: a dry run, the run, the same again, and later files; with --json programs get the same counts."""
    put(tmp_path / "people", "1.csv", range(20), "21,a,b,c")
    words = ("people", "--name", "people", "--kind", "welcome", "-q", "mail", "--map", "key=id", "--where", "id <> 3")
    follow = (*words, "--follow", "--once", "--json")

    dry = document(run(*words, "--dry-run", "--json", code=1))
    untouched = is_untouched(url)
    text, hints = run(*words, code=1)
    drained = drain(url, MAIL)
    again = document(run(*words, "--json", "--where", "id <> 3", code=1))
    put(tmp_path / "people", "2.csv", range(15, 30))
    followed = document(run(*follow, code=1))

    assert (dry["dry"], dry["jobs"], dry["refused"], untouched) == (True, 19, {"bad_source": 1}, True)
    assert drained == 19
    lines = [re.split(r"\s{2,}", line.rstrip()) for line in text.splitlines()]
    assert ["created", "19", "new jobs"] in lines
    assert ["refused: bad_source", "1", "the row cannot be read, its text is 21,a,b,c"] in lines
    assert "20 rows of people under the name 'people'" in text
    assert re.search(r"refused rows are kept in headrace-data/refused/people/run=run-\w+/\*\.parquet", text)
    assert (
        "next: correct these rows and ingest them again under the same name; the others are not written twice\n"
        in hints
    )
    assert (again["created"], again["duplicate"]) == (0, 19)
    assert (followed["created"], followed["duplicate"], followed["rows"]) == (10, 24, 35)
    [job] = [job for job in waiting(url, MAIL) if b"p29@" in job.payload]
    assert (job.kind, job.payload) == ("welcome", b'{"email":"p29@example.org","id":29}')
    kept = pq.read_table(tmp_path / "headrace-data/refused/people", partitioning=None).to_pylist()
    assert [row["reason"] for row in kept] == ["bad_source"] * 3


WRONG = {
    "no file": (("nowhere.csv",), "there is no file or folder 'nowhere.csv'; check the path, or give a table that"),
    "no table": (("nowhere",), "there is no file, folder or table 'nowhere'; give a path"),
    "no format": (("headrace.db",), "the name 'headrace.db' does not show its format; give --format, such as"),
    "no kind": (("p.csv", "--kind", ""), "option kind is ''; give 1 to"),
    "no column": (("p.csv", "--map", "pay=id"), "a job has no column 'pay' to map to; it has kind, payload"),
    "no pair": (("p.csv", "--map", "id"), "--map must be NAME=VALUE; found 'id'"),
    "no time": (("p.csv", "--keep", "soon"), "keep 'soon' is not a valid duration; use a number and a unit"),
    "no stream": (("p.csv", "--once"), "--once is for --follow"),
    "bad where": (("p.csv", "--where", "id >"), "--where 'id >' is not SQL that Spark understands"),
    "bad value": (("p.csv", "--check", "--where", "id > email"), "--where 'id > email' fails on a row: cannot cast 'p"),
    "bad query": (("p.csv", "--sql", "select nope from source"), "--sql 'select nope from source' names 'nope'"),
    "bad schema": (("p.csv", "--schema", "id what"), "--schema 'id what' is not a schema: "),
    "bad map": (("p.csv", "--map", "key=nope"), "--map key 'nope' names 'nope', which does not exist; columns are id"),
    "bad format": (("p.csv", "--format", "parquet"), "p.csv' cannot be read: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_options_of_the_command_are_one_sentence_and_nothing_is_written(
    run: Run, url: str, tmp_path: Path, name: str
) -> None:
    words, sentence = WRONG[name]
    put(tmp_path, "p.csv", range(3))

    out, err = run(words[0], "--name", "x", *(() if "--kind" in words else ("--kind", "k")), *words[1:], code=2)

    assert out == ""
    assert sentence in err
    assert_one_sentence(err)
    assert is_untouched(url)


def test_sql_that_fails_on_a_value_ends_a_stream_with_one_sentence_and_no_job(
    run: Run, url: str, tmp_path: Path
) -> None:
    put(tmp_path / "people", "1.csv", range(3))

    _, err = run(
        "people", "--name", "x", "--kind", "k", "--map", "key=cast(email AS int)", "--follow", "--once", code=2
    )

    sentence = """the rows cannot be made into jobs: The value 'p0@example.org' of the type "STRING" cannot be cast"""
    assert sentence in err
    assert call_store(url, all_tenants) == []


def assert_one_sentence(err: str) -> None:
    """One line of ours and no traceback; a worker of an earlier test that ends late may print something else."""
    assert err.count("headrace: ") == 1
    assert "Traceback" not in err


def test_a_format_without_a_path_is_read_by_its_options(run: Run, url: str, tmp_path: Path) -> None:
    put(tmp_path, "p.csv", range(3))
    run("p.csv", "--name", "x", "--kind", "k", "-q", "mail")
    options = ("--format", "headrace", "--option", f"url={url}", "--option", "what=jobs", "--option", "queue=mail")

    done = document(run("-", *options, "--name", "y", "--kind", "k", "-q", "copies", "--map", "key=id", "--json"))
    _, unnamed = run("-", "--name", "y", "--kind", "k", code=2)
    _, nowhere = run("orders", "--format", "jdbc", "--name", "y", "--kind", "k", code=2)

    assert (done["created"], done["rows"]) == (3, 3)
    assert "the source is -, which has no path; give a --format without one, such as jdbc" in unnamed
    assert "there is no file or folder 'orders'; " in nowhere
    assert "if jdbc has no path, give - and its options (--option)" in nowhere


CSV = {"header": "true", "inferSchema": "true"}


def test_the_format_of_a_source_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.tsv.gz", "d/x=1/part-1.snappy.parquet", "d/_SUCCESS.txt", "t/_delta_log/0.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    found = {name: find_source(name) for name in ("a.csv", "b.tsv.gz", "d", "t", "s3://b/x.jsonl", "*.orc", "main.t")}
    own = find_source("a.csv", options={"header": "false"})

    assert {name: source.format for name, source in found.items()} == {
        "a.csv": "csv",
        "b.tsv.gz": "csv",
        "d": "parquet",
        "t": "delta",
        "s3://b/x.jsonl": "json",
        "*.orc": "orc",
        "main.t": None,
    }
    assert (found["a.csv"].options, own.options) == (CSV, CSV | {"header": "false"})
    assert found["b.tsv.gz"] == Source(str(tmp_path / "b.tsv.gz"), "csv", CSV | {"sep": "\t"})
    with pytest.raises(BadConfig, match=r"there is no file or folder 'main/t'"):
        find_source("main/t")
    assert find_source("main/t.json", local=False).format == "json"
