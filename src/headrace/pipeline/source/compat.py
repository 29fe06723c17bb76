"""Fills the gaps of PySpark 4.1 against 4.2 and newer, and refuses older versions."""

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.errors import BadConfig
from headrace.pipeline.packages import check_version, parse_version

check_version(pyspark.__version__)

from pyspark.sql.datasource import (  # noqa: E402  (4.0 lacks these, and is refused above)
    DataSourceStreamArrowWriter,
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

HAS_4_2 = parse_version(pyspark.__version__) >= (4, 2)

if TYPE_CHECKING or HAS_4_2:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """The limit of a batch; 4.1 asks for none."""

    class ReadAllAvailable(ReadLimit):
        """No limit."""

    class ReadMaxRows(ReadLimit):
        """At most so many rows."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class SupportsTriggerAvailableNow:
        """4.1 gives `availableNow` one batch, up to the events that exist when the query begins."""


__all__ = [
    "HAS_4_2",
    "DataSourceStreamArrowWriter",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "IsNotNull",
    "IsNull",
    "LessThan",
    "LessThanOrEqual",
    "Not",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "StringContains",
    "StringEndsWith",
    "StringStartsWith",
    "SupportsTriggerAvailableNow",
    "check_limit",
    "latest_values",
    "limit_options",
]


def check_limit(*, has_limits: bool = HAS_4_2) -> None:
    """Refuse to bound batches where Spark would end `availableNow` after the first of them."""
    if not has_limits:
        raise BadConfig(
            "a bound of batches (maxEventsPerTrigger, --events-max) needs Spark 4.2 or newer, and this is"
            f" {pyspark.__version__}; leave it out, and a batch holds all available events"
        )


def limit_options(events_max: int | None, default: int, *, has_limits: bool = HAS_4_2) -> dict[str, str]:
    """The option that bounds batches at `events_max` events, or at the default if that is None.

    Where Spark has no bounds, the default does not apply, and a given bound is refused.
    """
    if events_max is not None:
        check_limit(has_limits=has_limits)
    return {"maxEventsPerTrigger": str(events_max or default)} if has_limits else {}


def latest_values(value: Column, order: Column, count: int, *, has_count: bool = HAS_4_2) -> Column:
    """The `count` values with the greatest `order`, the greatest first."""
    if has_count:
        return F.max_by(value, order, count)
    pairs = F.sort_array(F.collect_list(F.struct(order.alias("order"), value.alias("value"))), asc=False)
    return F.slice(pairs, 1, count).getField("value")
