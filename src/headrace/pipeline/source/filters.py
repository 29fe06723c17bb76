"""Applies the filters that Spark pushes down, so that other rows are not read or do not reach Spark."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql.datasource import DataSourceReader

from headrace.pipeline.source.compat import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from headrace.pipeline.source.schema import INSTANT

LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""The bounds of an unfiltered column."""

_COMPARE: dict[type, Any] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
_MATCH: dict[type, Any] = {
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}
_OPPOSITE: dict[type, Any] = {
    GreaterThan: LessThanOrEqual,
    GreaterThanOrEqual: LessThan,
    LessThan: GreaterThanOrEqual,
    LessThanOrEqual: GreaterThan,
}
_KNOWN: tuple[type, ...] = (*_COMPARE, *_MATCH, EqualNullSafe, In, IsNull, IsNotNull)


class Filters(Struct, frozen=True):
    """Conditions that must all hold for a row. As in SQL, a condition that is unknown because of a null does not
    hold."""

    conditions: tuple[Filter, ...] = ()

    @staticmethod
    def take(filters: Iterable[Filter]) -> "tuple[Filters, list[Filter]]":
        """The filters that can be applied here exactly, and the rest, which Spark applies."""
        known: list[Filter] = []
        rest: list[Filter] = []
        for each in filters:
            (known if _is_known(each) else rest).append(each)
        return Filters(tuple(known)), rest

    def about(self, names: Sequence[str]) -> "tuple[Filters, Filters]":
        """The conditions on columns of these names, and the others."""
        own = tuple(each for each in self.conditions if _column(each) in names)
        return Filters(own), Filters(tuple(each for each in self.conditions if _column(each) not in names))

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows for which all conditions hold; the batch itself without conditions."""
        for each in self.conditions:
            if batch.num_rows == 0:
                break
            batch = batch.filter(_truth(each, batch.column(_column(each))))
        return batch

    def allows(self, column: str, value: object) -> bool:
        """Whether the conditions can hold for rows with this value in this column."""
        values = pa.array([value])
        return all(_truth(each, values)[0].as_py() is True for each in self.conditions if _column(each) == column)

    def values(self, column: str) -> frozenset[object] | None:
        """The possible values of this column; None if any value is."""
        found: frozenset[object] | None = None
        for each in self.conditions:
            if _column(each) == column and isinstance(each, EqualTo | EqualNullSafe | In):
                values = each.value if isinstance(each, In) else (each.value,)
                some = frozenset(value for value in values if value is not None)
                found = some if found is None else found & some
        return found

    def bounds(self, column: str) -> tuple[int, int]:
        """The least and the greatest possible number of a column, inclusive; milliseconds since 1970 for instants.
        Rows between them may still fail a condition."""
        low, high = LOWEST, HIGHEST
        for each in self.conditions:
            if _column(each) == column:
                least, most = _range(each)
                low, high = max(low, least), min(high, most)
        return low, high


class FilteredReader(DataSourceReader):
    """A reader that applies `filters`: none by default, since Spark applies the filters of a query itself."""

    filters: Filters = Filters()


class FilterPushdown(FilteredReader):
    """Takes over from Spark the filters that can be applied here exactly. A mixin, because Spark fails a query whose
    reader has `pushFilters` while `spark.sql.python.filterPushdown.enabled` is false."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        self.filters, rest = Filters.take(filters)
        return rest


_PUSHDOWN_PROGRAM = "pyspark.sql.worker.data_source_pushdown_filters"


def is_pushdown_on() -> bool:
    """Whether Spark is about to push filters down: it does so in a separate program, and only if its setting is on."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHDOWN_PROGRAM in sys.modules or (spec is not None and spec.name == _PUSHDOWN_PROGRAM)


def _is_known(condition: Any) -> bool:
    if isinstance(condition, Not):
        return _is_known(condition.child)
    if type(condition) not in _KNOWN or len(condition.attribute) != 1:
        return False
    if isinstance(condition, In):
        return all(_is_plain(value) for value in condition.value)
    return isinstance(condition, IsNull | IsNotNull) or _is_plain(condition.value)


def _is_plain(value: object) -> bool:
    """Whether a value has a type of our columns."""
    try:
        type = pa.scalar(value).type
    except (pa.ArrowException, OverflowError):
        return False
    return (
        pa.types.is_null(type)
        or pa.types.is_string(type)
        or pa.types.is_integer(type)
        or pa.types.is_boolean(type)
        or (pa.types.is_timestamp(type) and type.tz is not None)
    )


def _column(condition: Any) -> str:
    return _column(condition.child) if isinstance(condition, Not) else str(condition.attribute[0])


def _truth(condition: Any, column: pa.Array) -> pa.Array:
    """True, false or null (unknown) for each value of a column."""
    if isinstance(condition, Not):
        return pc.invert(_truth(condition.child, column))
    if isinstance(condition, IsNull):
        return column.is_null()
    if isinstance(condition, IsNotNull):
        return column.is_valid()
    if isinstance(condition, In):
        return _among(condition.value, column)
    if isinstance(condition, EqualNullSafe):
        if condition.value is None:
            return column.is_null()
        return pc.fill_null(pc.equal(column, pa.scalar(condition.value, column.type)), False)
    if type(condition) in _MATCH:
        if condition.value is None:
            return pa.nulls(len(column), pa.bool_())
        return _MATCH[type(condition)](column, condition.value)
    return _COMPARE[type(condition)](column, pa.scalar(condition.value, column.type))


def _among(values: Sequence[object], column: pa.Array) -> pa.Array:
    known = pa.array([value for value in values if value is not None], column.type)
    found = pc.is_in(column, known)
    # As in SQL: a value not in a list with a null is unknown, and so is any comparison with null.
    unknown = pc.invert(found) if len(known) < len(values) else column.is_null()
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _range(condition: Any) -> tuple[int, int]:
    """The range of numbers (milliseconds for instants) in which a condition can hold."""
    if isinstance(condition, Not):
        child: Any = condition.child
        opposite = _OPPOSITE.get(type(child))
        return _range(opposite(child.attribute, child.value)) if opposite else (LOWEST, HIGHEST)
    if isinstance(condition, In):
        ends = [_thousandths(value) for value in condition.value if value is not None]
        # A list of nulls holds for no row.
        return (-(-min(ends) // 1000), max(ends) // 1000) if ends else (HIGHEST, LOWEST)
    value = getattr(condition, "value", None)
    if isinstance(condition, IsNull) or type(condition) in _MATCH or value is None:
        return LOWEST, HIGHEST
    end = _thousandths(value)
    up, down = -(-end // 1000), end // 1000
    return {
        EqualTo: (up, down),
        EqualNullSafe: (up, down),
        GreaterThan: (down + 1, HIGHEST),
        GreaterThanOrEqual: (up, HIGHEST),
        LessThan: (LOWEST, up - 1),
        LessThanOrEqual: (LOWEST, down),
    }.get(type(condition), (LOWEST, HIGHEST))


def _thousandths(value: object) -> int:
    """A whole number in thousandths, an instant in microseconds: a thousand of both are one unit of `bounds`."""
    scalar = pa.scalar(value)
    return int(scalar.cast(INSTANT).value) if pa.types.is_timestamp(scalar.type) else int(scalar.as_py()) * 1000
