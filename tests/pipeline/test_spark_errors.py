"""Promises of errors: what we say is found inside what Spark makes of it."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig, HeadraceError, Refused, StoreUnavailable
from headrace.pipeline import enqueue
from headrace.pipeline.spark_errors import headrace_error
from tests.pipeline.store_scenarios import url_of

PAGE = """[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source commit: Traceback (most recent call last):
  File "x.py", line 61, in end_run
    raise rows_refused(written)
headrace.model.errors.{}: of 3 rows 2 created
 SQLSTATE: 38000"""


@pytest.mark.parametrize("kind", [BadConfig, Refused, StoreUnavailable])
def test_the_sentence_and_the_kind_of_an_error_are_found(kind: type[HeadraceError]) -> None:
    found = headrace_error(PySparkException(PAGE.format(kind.__name__)))

    assert type(found) is kind
    assert str(found) == "of 3 rows 2 created"


def test_what_is_spark_s_own_is_left_to_it() -> None:
    assert headrace_error(PySparkException("[TABLE_OR_VIEW_NOT_FOUND] The table or view cannot be found")) is None


async def test_a_fault_is_one_sentence_also_inside_an_event_loop(spark: SparkSession, tmp_path: Path) -> None:
    """A notebook has a running loop."""
    url = url_of(tmp_path / "jobs.db")

    with pytest.raises(BadConfig, match=r"^there is no store at [^\n]*jobs.db; check the path[^\n]*$"):
        enqueue(spark.range(1), url, queue="mail", kind="k")
