"""SQL that a person wrote, put on a frame: what is wrong with it is one sentence, said before anything is read."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.types import BooleanType

from headrace.model.checks import cut
from headrace.model.errors import BadConfig

COLUMNS_NAMED_MAX = 40
_LOG = "SQLQueryContextLogger"
"""Where pyspark writes a page about every error of SQL, whoever handles it."""


def filtered(frame: DataFrame, where: str, what: str = "where") -> DataFrame:
    """The rows for which the condition `where` is true; `what` is how the person knows it, such as `--where`."""
    with one_sentence(frame, what, where):
        condition = frame.select(F.expr(where)).schema.fields
        if len(condition) != 1 or not isinstance(condition[0].dataType, BooleanType):
            found = ", ".join(field.dataType.simpleString() for field in condition)
            raise BadConfig(
                f"{what} {cut(where)!r} is {found}, not true or false; write a condition, as in: kind = 'mail'"
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
    """Within this block, what Spark finds wrong with `text` is raised as one sentence and logged nowhere."""
    log: Any = PySparkLogger.getLogger(_LOG)
    was_disabled, log.disabled = log.disabled, True
    try:
        yield
    except (ParseException, AnalysisException) as error:
        raise BadConfig(told(error, frame, what, text)) from None
    finally:
        log.disabled = was_disabled


def told(error: AnalysisException | ParseException, frame: DataFrame, what: str, text: str) -> str:
    """What Spark found wrong with SQL, in one sentence, with the columns that there are."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")):
        missing = parameters.get("objectName", parameters.get("fieldName", "?")).replace("`", "")
        return f"{what} {cut(text)!r} names {missing!r}, which is not there; columns are {_columns(frame)}"
    if condition.startswith(("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION")):
        missing = parameters.get("routineName", parameters.get("name", "?")).replace("`", "")
        return f"{what} {cut(text)!r} calls {missing!r}, which Spark does not know; see the functions of Spark SQL"
    # The first line says it; what follows is where in Spark's plan it was found.
    said = str(error).strip().partition("\n")[0].split(" SQLSTATE:")[0].partition("] ")
    return f"{what} {cut(text)!r} is no SQL that Spark understands: {(said[2] or said[0]).rstrip('. ')}"


def _columns(frame: DataFrame) -> str:
    names = frame.columns
    more = f" and {len(names) - COLUMNS_NAMED_MAX} more" if len(names) > COLUMNS_NAMED_MAX else ""
    return ", ".join(names[:COLUMNS_NAMED_MAX]) + more
