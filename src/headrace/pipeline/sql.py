"""Applies SQL that a person wrote to a frame, and refuses what is wrong with it in one sentence before any write."""

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
"""Of Spark's own message: it may quote a whole row."""
LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers to which pyspark writes a page about every error of SQL, also one that is caught."""
_DATA_FAULTS = ("22", "21", "P0001")
"""How the SQLSTATE begins of errors that a value or `raise_error` causes: the SQL is at fault."""
_JAVA_MESSAGE = re.compile(r"\[[A-Z_.]+\] (.+?)\s+SQLSTATE: (\w{5})", re.DOTALL)
"""An error that pyspark leaves as Java wrote it."""


def quoted(name: str) -> str:
    """The name of a column as SQL takes it, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"


def filtered(frame: DataFrame, where: str, what: str = "where") -> DataFrame:
    """The rows for which the condition `where` is true; `what` is the person's name for it, such as `--where`."""
    with one_sentence(frame, what, where):
        fields = frame.select(F.expr(where)).schema.fields
        if len(fields) != 1 or not isinstance(fields[0].dataType, BooleanType):
            types = ", ".join(field.dataType.simpleString() for field in fields)
            raise BadConfig(
                f"{what} {cut(where)!r} is {types}, not true or false; write a condition, as in: kind = 'mail'"
            )
        return frame.where(where)


def selected(frame: DataFrame, expressions: Mapping[str, str], what: str = "column") -> DataFrame:
    """A frame of these columns, each from its expression; `what` goes before the name of a column in a refusal."""
    for name, expression in expressions.items():
        with one_sentence(frame, f"{what} {name}", expression):
            fields = frame.select(F.expr(expression)).schema.fields
        if len(fields) != 1:
            raise BadConfig(
                f"{what} {name} {cut(expression)!r} gives {len(fields)} columns, and one is wanted; put them into"
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
    """Within this block, where frames are read, a value that a person's SQL cannot take is raised as one sentence.

    `texts` are the SQL by the person's names for it: `{"--where": "dead_letter > 'x'"}`. Spark fails only when it meets
    the row, so read everything once (`persist` and `count`) before anything is written."""
    with unlogged():
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            sentence = explain_row_error(error, texts)
            if sentence is None:
                raise
            raise BadConfig(sentence) from None


def explain_sql_error(error: AnalysisException | ParseException, frame: DataFrame, what: str, text: str) -> str:
    """What is wrong with SQL in one sentence, with the columns of the frame."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")):
        missing = parameters.get("objectName", parameters.get("fieldName", "?")).replace("`", "")
        return f"{what} {cut(text)!r} names {missing!r}, which is not there; columns are {_columns(frame)}"
    if condition.startswith(("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION")):
        missing = parameters.get("routineName", parameters.get("name", "?")).replace("`", "")
        return f"{what} {cut(text)!r} calls {missing!r}, which Spark does not know; see the functions of Spark SQL"
    if condition == "PARSE_EMPTY_STATEMENT":
        return f"{what} is empty; write SQL, as in: kind = 'mail'"
    # The lines after the first show the place in Spark's plan.
    message = str(error).strip().partition("\n")[0].split(" SQLSTATE:")[0].partition("] ")
    return f"{what} {cut(text)!r} is no SQL that Spark understands: {(message[2] or message[0]).rstrip('. ')}"


def explain_row_error(error: Exception, texts: Mapping[str, str]) -> str | None:
    """Why SQL fails on a row, in one sentence; None for an error with another cause."""
    if isinstance(error, PySparkException):
        state, reason = error.getSqlState() or "", str(error).partition("] ")[2].partition(" SQLSTATE:")[0]
        contexts = error.getQueryContext() or []
        fragment = contexts[0].fragment() if contexts else ""
        if error.getCondition() == "CAST_INVALID_INPUT":
            values = error.getMessageParameters() or {}
            reason = f"{cut(values.get('expression', '?'))} is no {values.get('targetType', '?').lower()}"
    elif (match := _JAVA_MESSAGE.search(str(error))) is not None:
        (reason, state), fragment = match.groups(), ""
    else:
        return None
    if not state.startswith(_DATA_FAULTS):
        return None
    why = cut(reason.partition("\n")[0].partition(". ")[0].replace('"', "").rstrip(". "), REASON_CHARS_MAX)
    return f"{_which(texts, fragment)} fails on a row: {why}; let it give null there, as with try_cast(… as …)"


def _which(texts: Mapping[str, str], fragment: str) -> str:
    """The text at fault, by the part that Spark names; all of them when it names none."""
    at_fault = {what: text for what, text in texts.items() if fragment and fragment in text} or texts
    return " or ".join(f"{what} {cut(text)!r}" for what, text in at_fault.items())


@contextmanager
def unlogged() -> Iterator[None]:
    """Within this block, pyspark logs no page about errors of SQL, which become one sentence."""
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
