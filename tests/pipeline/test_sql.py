"""Promises about SQL that a person writes: what is wrong with it is one sentence, and nothing else is said anywhere."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from headrace.model.errors import BadConfig
from headrace.pipeline.sql import LOGS, at_run_time, filtered, selected

DEAD_LETTERS = [(1, "a", '{"total": 3}'), (2, "7", "no JSON")]


@pytest.fixture
def dead_letters(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(DEAD_LETTERS, "dead_letter bigint, id string, payload string")


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What pyspark writes into its logs about errors of SQL, which hand nothing on to others."""
    found: list[str] = []

    class Reader(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    reader = Reader()
    logs: list[Any] = [PySparkLogger.getLogger(name) for name in LOGS]
    for log in logs:
        log.addHandler(reader)
    yield found
    for log in logs:
        log.removeHandler(reader)


@pytest.fixture
def quiet(spark: SparkSession) -> Iterator[None]:
    """Java's own log is another one, which commands turn off."""
    spark.sparkContext.setLogLevel("OFF")
    yield
    spark.sparkContext.setLogLevel("ERROR")


def test_a_condition_keeps_the_rows_for_which_it_is_true_and_columns_come_from_expressions(
    dead_letters: DataFrame,
) -> None:
    kept = filtered(dead_letters, "dead_letter > 1 or id is null").collect()
    rows = selected(dead_letters, {"key": "concat('k-', id)", "payload": "struct(dead_letter)"}).collect()

    assert [row.id for row in kept] == ["7"]
    assert [(row.key, row.payload.dead_letter) for row in rows] == [("k-a", 1), ("k-7", 2)]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        (
            "dead_letter >",
            "--where 'dead_letter >' is not SQL that Spark understands: Syntax error at or near end of input",
        ),
        ("", "--where is empty; write SQL, as in: kind = 'mail'"),
        (
            "leter = 1",
            "--where 'leter = 1' names 'leter', which does not exist; columns are dead_letter, id, payload",
        ),
        (
            "lenght(id) = 1",
            "--where 'lenght(id) = 1' calls 'lenght', which Spark does not know; see the functions of Spark SQL",
        ),
        (
            "dead_letter + 1",
            "--where 'dead_letter + 1' is bigint, not true or false; write a condition, as in: kind = 'mail'",
        ),
        (
            "id = array(1)",
            "--where 'id = array(1)' is not SQL that Spark understands: Cannot resolve \"(id = array(1))\"",
        ),
        (
            "count(*) > 1",
            "--where 'count(*) > 1' is not SQL that Spark understands: The WHERE condition \"(count(1) > 1)",
        ),
        ("true; drop table x", "--where 'true; drop table x' is not SQL that Spark understands: Syntax error at or"),
    ],
)
def test_a_condition_that_cannot_be_is_one_sentence_and_nothing_is_logged(
    dead_letters: DataFrame, logged: list[str], where: str, sentence: str
) -> None:
    with pytest.raises(BadConfig) as refused:
        filtered(dead_letters, where, "--where")

    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)
    assert logged == []


def test_an_expression_that_cannot_be_a_column_is_one_sentence(dead_letters: DataFrame) -> None:
    with pytest.raises(
        BadConfig, match=r"^--map key 'ids' names 'ids', which does not exist; columns are dead_letter, id,"
    ):
        selected(dead_letters, {"payload": "id", "key": "ids"}, "--map")
    with pytest.raises(BadConfig, match=r"^--map key '\*' gives 3 columns instead of one; put them into one with"):
        selected(dead_letters, {"key": "*"}, "--map")


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        (
            "dead_letter > 'x'",
            "--where \"dead_letter > 'x'\" fails on a row: cannot cast 'x' to bigint",
        ),
        (
            "cast(id as int) > 0",
            "--where 'cast(id as int) > 0' fails on a row: cannot cast 'a' to int",
        ),
        (
            "1 / (dead_letter - 1) > 0",
            "--where '1 / (dead_letter - 1) > 0' fails on a row: Division by zero",
        ),
        (
            "parse_json(payload):total::int > 1",
            "--where 'parse_json(payload):total::int > 1' fails on a row: Malformed records are detected in record",
        ),
        ("raise_error(id) is null", "--where 'raise_error(id) is null' fails on a row: "),
    ],
)
def test_a_value_that_a_condition_cannot_take_is_one_sentence_and_pyspark_logs_nothing(
    quiet: None, dead_letters: DataFrame, logged: list[str], where: str, sentence: str
) -> None:
    found = filtered(dead_letters, where, "--where")

    with pytest.raises(BadConfig) as refused, at_run_time({"--where": where}):
        found.count()

    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)
    assert logged == []


def test_of_several_texts_the_one_that_fails_is_named_and_errors_of_others_pass(dead_letters: DataFrame) -> None:
    texts = {"--where": "id <> ''", "--payload": "dead_letter / 0"}
    rows = selected(filtered(dead_letters, texts["--where"]), {"payload": texts["--payload"]})

    fails = r"^--payload 'dead_letter / 0' fails on a row: Division by zero;"
    with pytest.raises(BadConfig, match=fails), at_run_time(texts):
        rows.collect()
    with pytest.raises(RuntimeError, match="ours"), at_run_time(texts):
        raise RuntimeError("ours")
