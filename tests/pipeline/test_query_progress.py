"""Progress: how far behind a query is, and what it had to leave out, from what Spark tells."""

import json
from typing import Any

from headrace.pipeline.query_progress import lag, lost, skipped


def source(lag: int, skipped: int = 0, lost: int = 0) -> dict[str, Any]:
    end = {"v": 1, "shards": {}, "jumps": {}, "skipped": skipped, "lost": lost}
    return {"endOffset": end, "latestOffset": {"v": 1, "shards": {}, "lag": lag}}


def test_the_sources_of_a_query_are_summed_up_and_those_of_others_left_out() -> None:
    rate = {"endOffset": 17, "latestOffset": 20}
    kafka = {"endOffset": {"topic": {"0": 17}}, "latestOffset": {"topic": {"0": 20}}}
    memory = {"endOffset": None, "latestOffset": None}

    progress = {"sources": [source(5, 1, 2), rate, source(7, 10, 20), kafka, memory]}

    assert (lag(progress), skipped(progress), lost(progress)) == (12, 11, 22)
    assert lag({"sources": [rate, memory]}) == 0


def test_progress_is_understood_as_python_gives_it_and_as_json() -> None:
    fields = {"sources": [{name: json.dumps(offset) for name, offset in source(5, 1, 2).items()}]}

    for progress in (fields, json.dumps({"sources": [source(5, 1, 2)]}), json.dumps(fields)):
        assert (lag(progress), skipped(progress), lost(progress)) == (5, 1, 2)
    assert lag({"sources": [{"endOffset": "no json", "latestOffset": "no json"}]}) == 0


def test_spark_4_1_reports_no_lag_and_its_losses_are_counted_all_the_same() -> None:
    progress = {"sources": [{"endOffset": source(0, 1, 2)["endOffset"], "latestOffset": None}]}

    assert (lag(progress), skipped(progress), lost(progress)) == (0, 1, 2)
