"""The example that enriches a table through a slow, flaky service runs, and its counts add up."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples/enrich"
ROWS = 300
RATE = 75
"""Far fewer than there are rows: some are told to come later, also on a slow machine."""


@pytest.fixture
def service(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A register whose address is known to Spark's workers, as `spark.executorEnv` makes it known in the example."""
    words = [sys.executable, str(EXAMPLE / "service.py"), "--port", "0", "--rate", str(RATE)]
    monkeypatch.syspath_prepend(EXAMPLE)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        monkeypatch.setitem(spark.sparkContext.environment, "ENRICH_SERVICE", address)
        monkeypatch.setitem(spark.sparkContext.environment, "ENRICH_RATE", "1000")
        yield address
        process.terminate()
    for name in ("app", "enrich"):
        sys.modules.pop(name, None)


def test_a_table_is_enriched_through_a_flaky_service_and_what_died_is_replayed(
    spark: SparkSession, service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_module("enrich").main(["--rows", str(ROWS), "--service", service, "--folder", str(tmp_path)])

    output = capsys.readouterr().out
    assert "of 300 rows 282 done, 18 dead; 300 new jobs, 0 from earlier calls" in output
    assert "|attempts|RegisterClosed|true" in output
    assert "|failed  |BadDomain     |false      |3           |'n-a' is no domain" in output
    assert "15 dead letters would be replayed\n   of 15 dead letters 15 replayed" in output
    assert "of 300 rows 297 done, 3 dead; 0 new jobs, 300 from earlier calls" in output
    assert " released" in output  # too many at once, and no attempt was counted for that
    table = spark.read.parquet(f"{tmp_path}/enriched")
    assert table.where("company like 'Mill% Ltd' and employees > 0 and outcome = 'done'").count() == 297
    failed = table.where("company is null").select("outcome", "domain", "error_message").distinct().collect()
    assert [tuple(row) for row in failed] == [("dead", "n-a", "'n-a' is no domain")]
