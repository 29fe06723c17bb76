"""Applies a user's SQL to a frame, and refuses invalid SQL in one sentence before any write."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import BooleanType

from headrace.model.errors import BadConfig
from headrace.model.validate import cut

COLUMNS_NAMED_MAX = 40
REASON_CHARS_MAX = 200
"""Of Spark's message, which may quote a whole row."""
LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers to which pyspark writes a page about every SQL error, even a caught one."""
_DATA_FAULTS = ("22", "21", "P0001")
"""Prefixes of the SQLSTATE of errors caused by a value or `raise_error`: the SQL is at fault."""
_JAVA_MESSAGE = re.compile(r"\[[A-Z_.]+\] (.+?)\s+SQLSTATE: (\w{5})", re.DOTALL)
"""An error of Java that pyspark does not convert."""


def quoted(name: str) -> str:
    """The name of a column quoted for SQL."""
    return f"`{name.replace('`', '``')}`"


def filtered(frame: DataFrame, where: str, what: str = "where") -> DataFrame:
    """The rows for which the condition `where` is true; `what` is its name in errors, such as `--where`."""
    with one_sentence(frame, what, where):
        fields = frame.select(F.expr(where)).schema.fields
        if len(fields) != 1 or not isinstance(fields[0].dataType, BooleanType):
            types = ", ".join(field.dataType.simpleString() for field in fields)
            raise BadConfig(
                f"{what} {cut(where)!r} is {types}, not true or false; write a condition, as in: kind = 'mail'"
            )
        return frame.where(where)


def selected(frame: DataFrame, expressions: Mapping[str, str], what: str = "column") -> DataFrame:
    """A frame of these columns, each from its expression; `what` precedes the name of a column in errors."""
    for name, expression in expressions.items():
        with one_sentence(frame, f"{what} {name}", expression):
            fields = frame.select(F.expr(expression)).schema.fields
        if len(fields) != 1:
            raise BadConfig(
                f"{what} {name} {cut(expression)!r} gives {len(fields)} columns instead of one; put them into"
                " one with struct(…)"
            )
    return frame.select(*(F.expr(expression).alias(name) for name, expression in expressions.items()))


@contextmanager
def one_sentence(frame: DataFrame, what: str, text: str) -> Iterator[None]:
    """Within this block, an error of Spark about `text` is raised as one sentence and logged nowhere."""
    with unlogged():
        try:
            yield
        except (ParseException, AnalysisException) as error:
            raise BadConfig(explain_sql_error(error, frame, what, text)) from None


@contextmanager
def at_run_time(texts: Mapping[str, str]) -> Iterator[None]:
    """Within this block, an error of a user's SQL on a value is raised as one sentence.

    `texts` are the SQL by name: `{"--where": "dead_letter > 'x'"}`. Spark fails only at the row, so read everything
    once (`persist` and `count`) before a write."""
    with unlogged():
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            sentence = explain_row_error(error, texts)
            if sentence is None:
                raise
            raise BadConfig(sentence) from None


def explain_sql_error(error: AnalysisException | ParseException, frame: DataFrame, what: str, text: str) -> str:
    """The fault of SQL in one sentence, with the columns of the frame."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")):
        missing = parameters.get("objectName", parameters.get("fieldName", "?")).replace("`", "")
        return f"{what} {cut(text)!r} names {missing!r}, which does not exist; columns are {_columns(frame)}"
    if condition.startswith(("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION")):
        missing = parameters.get("routineName", parameters.get("name", "?")).replace("`", "")
        return f"{what} {cut(text)!r} calls {missing!r}, which Spark does not know; see the functions of Spark SQL"
    if condition == "PARSE_EMPTY_STATEMENT":
        return f"{what} is empty; write SQL, as in: kind = 'mail'"
    # The lines after the first show the place in Spark's plan.
    message = str(error).strip().partition("\n")[0].split(" SQLSTATE:")[0].partition("] ")
    return f"{what} {cut(text)!r} is not SQL that Spark understands: {(message[2] or message[0]).rstrip('. ')}"


def explain_row_error(error: Exception, texts: Mapping[str, str]) -> str | None:
    """Why SQL fails on a row, in one sentence; None for an error with another cause."""
    if isinstance(error, PySparkException):
        state, reason = error.getSqlState() or "", str(error).partition("] ")[2].partition(" SQLSTATE:")[0]
        contexts = error.getQueryContext() or []
        fragment = contexts[0].fragment() if contexts else ""
        if error.getCondition() == "CAST_INVALID_INPUT":
            values = error.getMessageParameters() or {}
            reason = f"cannot cast {cut(values.get('expression', '?'))} to {values.get('targetType', '?').lower()}"
    elif (match := _JAVA_MESSAGE.search(str(error))) is not None:
        (reason, state), fragment = match.groups(), ""
    else:
        return None
    if not state.startswith(_DATA_FAULTS):
        return None
    why = cut(reason.partition("\n")[0].partition(". ")[0].replace('"', "").rstrip(". "), REASON_CHARS_MAX)
    return f"{_which(texts, fragment)} fails on a row: {why}; let it give null there, as with try_cast(… as …)"


def _which(texts: Mapping[str, str], fragment: str) -> str:
    """The faulty text, by the fragment that Spark quotes; all texts if it quotes none."""
    at_fault = {what: text for what, text in texts.items() if fragment and fragment in text} or texts
    return " or ".join(f"{what} {cut(text)!r}" for what, text in at_fault.items())


@contextmanager
def unlogged() -> Iterator[None]:
    """Within this block, pyspark does not log SQL errors, which become one sentence."""
    logs: list[Any] = [PySparkLogger.getLogger(name) for name in LOGS]
    were_disabled = [log.disabled for log in logs]
    for log in logs:
        log.disabled = True
    try:
        yield
    finally:
        for log, was_disabled in zip(logs, were_disabled, strict=True):
            log.disabled = was_disabled


def _columns(frame: DataFrame) -> str:
    names = frame.columns
    more = f" and {len(names) - COLUMNS_NAMED_MAX} more" if len(names) > COLUMNS_NAMED_MAX else ""
    return ", ".join(names[:COLUMNS_NAMED_MAX]) + more
