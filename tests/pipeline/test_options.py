"""Promises of the options: what makes no sense is refused with a sentence to act on, and no secret is told."""

from pathlib import Path

import pytest

from headrace.model.errors import BadConfig, HeadraceError
from headrace.pipeline.source.offsets import OffsetLimit
from headrace.pipeline.source.options import SourceOptions, WriteOptions
from headrace.pipeline.source.schema import PAYLOAD_COLUMNS, TABLES, table_of


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "jobs.db").touch()
    return f"sqlite:///{tmp_path}/jobs.db"


def test_only_the_url_must_be_given(url: str) -> None:
    assert SourceOptions.parse({"url": url}) == SourceOptions(
        url=url, what="journal", tenant="default", names=(), columns=()
    )
    assert WriteOptions.parse({"url": url}) == WriteOptions(url=url, what="jobs", tenant="default", name=None)


def test_names_of_options_may_be_written_in_any_case(url: str) -> None:
    settings = {"URL": url, "minpartitions": "3", "Tenant": "*", "QUEUE": "a, b.fail,a", "FAILONDATALOSS": "False"}

    options = SourceOptions.parse(settings)

    assert options == SourceOptions(url=url, tenant="*", names=("a", "b.fail"), partitions_min=3, fails_on_loss=False)


def test_every_option_of_a_read_is_understood(url: str) -> None:
    options = SourceOptions.parse(
        {
            "url": url,
            "what": "journal",
            "queue": "mail",
            "columns": "seq, happened_at",
            "startingOffsets": "latest",
            "endingOffsets": "2030-01-31T12:00:00Z",
            "maxOffsetsPerTrigger": "500",
            "minOffsetsPerTrigger": "50",
            "maxTriggerDelay": "2m",
            "maxEventsPerPartition": "70",
        }
    )

    assert (options.names, options.columns, options.events_max) == (("mail",), ("seq", "happened_at"), 500)
    assert (options.events_min, options.trigger_delay_ms, options.partition_events_max) == (50, 120_000, 70)
    assert (options.starting, options.ending) == (OffsetLimit("latest"), OffsetLimit(at_ms=1_896_091_200_000))


def test_every_option_of_a_write_is_understood(url: str) -> None:
    jobs = {"queue": "mail", "shards": "4", "kind": "k", "name": "import", "keyTtl": "2h", "refusals": "count"}
    dead = {"what": "dead", "keepCounts": "true", "delay": "5s", "spread": "1m"}

    written = WriteOptions.parse({"url": url, "tenant": "acme", "report": "runs", **jobs})
    replayed = WriteOptions.parse({"url": url, **dead})

    assert (written.name, written.shards, written.kind, written.key_space) == ("mail", 4, "k", "import")
    assert (written.key_keep_ms, written.fails_on_refusal, written.report) == (7_200_000, False, "runs")
    assert (replayed.keep_counts, replayed.delay_ms, replayed.spread_ms) == (True, 5_000, 60_000)


def test_what_spark_itself_hands_to_a_sink_is_no_unknown_option(url: str) -> None:
    settings = {"url": url, "checkpointLocation": "/checkpoint", "queryName": "ingest"}

    assert WriteOptions.parse(settings) == WriteOptions(url=url, what="jobs")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", OffsetLimit("earliest")),
        ("latest", OffsetLimit("latest")),
        ("1700000000000", OffsetLimit(at_ms=1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", OffsetLimit(at_ms=1_700_000_000_000)),
        (
            '{"default/mail/0": 17, "default/mail/1": -1}',
            OffsetLimit(seqs={"default/mail/0": 17, "default/mail/1": -1}),
        ),
        (
            '{"default/mail/0": 17, "default/mail/1": "2023-11-14T23:13:20+01:00"}',
            OffsetLimit(seqs={"default/mail/0": 17}, instants_ms={"default/mail/1": 1_700_000_000_000}),
        ),
        ("{}", OffsetLimit(seqs={})),
    ],
)
def test_a_limit_is_an_end_an_instant_or_a_seq_or_instant_of_each_shard(text: str, place: OffsetLimit) -> None:
    assert OffsetLimit.parse("startingOffsets", text) == place


def test_a_pattern_selects_the_queues_whose_whole_name_matches(url: str) -> None:
    options = SourceOptions.parse({"url": url, "queuePattern": r"mail(-\w+)?"})

    names = ["mail", "mail-eu", "mail-eu.fail", "my-mail", "mails"]

    assert [name for name in names if options.selects(name)] == ["mail", "mail-eu"]


def test_a_shard_that_an_end_does_not_name_is_read_to_its_end() -> None:
    assert OffsetLimit.parse("endingOffsets", '{"default/mail/0": 17}').end == "latest"


@pytest.mark.parametrize(
    "text", ["", "soon", "2030-01-31 12:00", '{"a": -3}', '{"a": "1"}', '{"a": "soon"}', '{"a": 1', "[1]", "-5"]
)
def test_a_place_that_is_none_is_refused_with_what_can_be_given(text: str) -> None:
    with pytest.raises(BadConfig, match=r"option startingOffsets is .*; give earliest, latest, an instant such as"):
        OffsetLimit.parse("startingOffsets", text)


def test_a_url_may_hold_settings_and_escapes(tmp_path: Path) -> None:
    (tmp_path / "my jobs.db").touch()

    url = f"sqlite:///{tmp_path}/my%20jobs.db?profile=fast"

    assert SourceOptions.parse({"url": url}).url == url


@pytest.mark.parametrize("url", ["redis://host/0", "rediss://host", "redis+cluster://a,b", "postgresql://host/jobs"])
def test_a_server_is_not_looked_for_before_it_is_read(url: str) -> None:
    assert SourceOptions.parse({"url": url}).url == url


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"what": "job"},
            "option what is 'job', which format headrace cannot read; give one of journal, jobs, results",
        ),
        ({"startOffset": "1"}, "has no option 'startOffset' to read journal; known options: url, what, tenant, queue"),
        ({"path": "/x"}, "has no option 'path'"),
        (
            {"queuePattern": "a("},
            "option queuePattern is 'a(', which is not a valid regular expression (missing ), untermin",
        ),
        ({"queue": "a", "queuePattern": "b"}, "options queue and queuePattern both select the queues; give one"),
        ({"what": "feed", "queuePattern": "x"}, "has no option 'queuePattern' to read feed"),
        ({"feed": "x"}, "has no option 'feed' to read journal"),
        ({"what": "feed", "queue": "x"}, "has no option 'queue' to read feed"),
        ({"what": "jobs", "startingOffsets": "latest"}, "has no option 'startingOffsets' to read jobs"),
        ({"tenant": "Big Co"}, "tenant 'Big Co' is not a name"),
        ({"queue": " , "}, "option queue is ','; give a name, several names with commas between them, or"),
        ({"queue": "a,*"}, "option queue is 'a,*'"),
        ({"columns": "seq,seq"}, "option columns is 'seq,seq'; give names with commas between them, each once"),
        ({"columns": ""}, "option columns is ''"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is 'no'; give true or false"),
        ({"minPartitions": "0"}, "option minPartitions is '0'; give a whole number from 1 to 10,000"),
        ({"minPartitions": "many"}, "option minPartitions is 'many'"),
        ({"minPartitions": "²"}, "option minPartitions is '²'"),
        ({"maxEventsPerTrigger": "1", "maxOffsetsPerTrigger": "1"}, "mean the same; give one of them"),
        ({"minEventsPerTrigger": "1", "minOffsetsPerTrigger": "1"}, "mean the same; give one of them"),
        ({"minEventsPerTrigger": "9", "maxEventsPerTrigger": "8"}, "is 9 and maxEventsPerTrigger 8; lower the minimum"),
        ({"maxTriggerDelay": "5m"}, "maxTriggerDelay bounds the wait for minEventsPerTrigger; give both"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(url: str, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(HeadraceError) as refused:
        SourceOptions.parse({"url": url, **settings})

    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"what": "journal"}, "'journal', which format headrace cannot write; it can only be read; give one of jobs"),
        ({"colour": "red"}, "has no option 'colour' to write jobs; known options: url, what, tenant, queue, shards"),
        ({"tenant": "*"}, "tenant '*' is not a name"),
        ({"queue": "a,b"}, "queue name 'a,b' is not a name"),
        ({"shards": "257"}, "option shards is '257'; give a whole number from 1 to 256"),
        ({"kind": ""}, "option kind is ''; give 1 to 128 characters"),
        ({"refusals": "ignore"}, "option refusals is 'ignore'; give fail or count"),
        ({"keyTtl": "soon"}, "keyTtl"),
    ],
)
def test_an_option_of_a_write_that_makes_no_sense_is_refused(url: str, settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(HeadraceError) as refused:
        WriteOptions.parse({"url": url, **settings})

    assert sentence in str(refused.value)


def test_a_column_that_is_not_there_is_refused_with_the_known_ones(url: str) -> None:
    with pytest.raises(
        BadConfig, match="option columns names 'sequence', which does not exist; known columns: tenant,"
    ):
        table_of(SourceOptions.parse({"url": url, "columns": "id,sequence"}))


def test_jobs_and_dead_letters_can_be_read_without_their_bodies(url: str) -> None:
    for what in ("jobs", "dead"):
        table = table_of(SourceOptions.parse({"url": url, "what": what, "payloads": "false"}))

        assert table.names == tuple(name for name in TABLES[what].names if name not in PAYLOAD_COLUMNS)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "needs option url; give the store's, for example sqlite:///"),
        ("memory://", "a memory:// store lives inside one process"),
        ("me:hunter2@host", "no store for scheme 'me'"),
        ("kafka://me:hunter2@host/x", "no store for scheme 'kafka'; known URLs: memory://"),
        ("redis://me:hunter2@[host/0", "this is not a URL"),
        ("redis://me:hunter2#@host/0", "the part behind # would be lost"),
        ("sqlite://me:hunter2@host/x.db", "names a file after three slashes"),
        ("sqlite:///", "names a file after three slashes"),
        ("sqlite:///gone/gone.db?key=hunter2", "has no option 'key'"),
        ("sqlite:///gone/gone.db", "gone/gone.db; check the path"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_telling_a_password(url: str, sentence: str) -> None:
    with pytest.raises(BadConfig) as refused:
        SourceOptions.parse({"url": url})

    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_options_are_shown_without_the_secrets_of_the_url() -> None:
    url = "redis://me:hunter2@host:6379/0?password=hunter2"

    texts = [repr(SourceOptions(url=url, names=("mail",))), str(WriteOptions(url=url, what="jobs"))]

    assert texts[0].startswith("SourceOptions(url='redis://host:6379/0', what='journal'")
    assert texts[1].startswith("WriteOptions(url='redis://host:6379/0', what='jobs'")
    assert "hunter2" not in "".join(texts)
