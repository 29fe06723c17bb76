"""Promises of where events come from: the history when there is one, else the journal."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import events, read_journal
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.source.schema import JOURNAL
from tests.pipeline.filled_journals import fill, fill_store
from tests.pipeline.store_scenarios import url_of

MAIL, NEWS = Queue("mail", "acme"), Queue("news", "birch")


def test_the_history_is_taken_when_there_is_one_and_else_the_journal(spark: SparkSession, tmp_path: Path) -> None:
    data_dir, url = DataDir(tmp_path / "headrace-data"), url_of(tmp_path / "jobs.db")
    fill_store(url, fill(MAIL, 3), fill(NEWS, 2))

    before = events(spark, url, data_dir)
    count = before.frame.count()
    assert follow_history(spark, url, data_dir.history, once=True).awaitTermination(60)
    fill_store(url, fill(MAIL, 1, since=3))
    written = events(spark, None, data_dir)
    chosen = events(spark, url, data_dir, tenant="acme", origin="journal")
    narrowed = events(spark, None, data_dir, tenant="birch", queue="news, post")
    assert follow_history(spark, url, data_dir.history, once=True).awaitTermination(60)
    later = events(spark, None, data_dir)

    assert (before.origin, count) == ("journal", 5)
    assert (written.origin, written.of, written.frame.count()) == ("history", str(data_dir.history), 5)
    assert (chosen.origin, chosen.of, chosen.frame.count()) == ("journal", f"sqlite:///{tmp_path}/jobs.db", 4)
    assert narrowed.frame.count() == 2
    assert (written.head, later.head, later.frame.count(), later.between(0, 1).count()) == (0, 1, 6, 1)
    assert narrowed.frame.select(*JOURNAL.names).schema == chosen.frame.schema == JOURNAL.spark


def test_a_missing_source_is_refused_before_spark_wraps_the_error(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)

    with pytest.raises(BadConfig, match="there is no store at"):
        read_journal(spark, url_of(tmp_path / "gone.db"))
    with pytest.raises(BadConfig, match=r"there is no history in .*; give the store whose journal to read"):
        events(spark, None, data_dir)
    with pytest.raises(BadConfig, match=r"there is no history in .*headrace pipeline history"):
        events(spark, None, data_dir, origin="history")
    with pytest.raises(BadConfig, match="origin is 'moon'; give history or journal"):
        events(spark, None, data_dir, origin="moon")  # type: ignore[arg-type]
