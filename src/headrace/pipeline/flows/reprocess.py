"""Checks, counts and words that replay and backfill share: both count what matches before they write anything."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.model.errors import BadConfig
from headrace.model.limits import DURATION_MS_MAX, KIND_CHARS_MAX
from headrace.model.names import DEFAULT_TENANT, Queue
from headrace.model.times import Duration, duration_ms
from headrace.model.validate import check_text, cut
from headrace.pipeline.source.store_access import connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME_CHARS_MAX = 80
"""The name of a backfill is part of every key."""
GROUPS_MAX = 1_000
"""Groups in a report, which people read; there may be many kinds and errors."""
_BODIES = re.compile(r"\b(payload|headers|result)\b", re.IGNORECASE)


def check_times(delay: Duration, spread: Duration) -> None:
    """Refuse durations that are invalid, or too long together."""
    if duration_ms("delay", delay) + duration_ms("spread", spread) > DURATION_MS_MAX:
        raise BadConfig("delay and spread together are more than a year; make them shorter")


def check_limit(limit: int | None) -> None:
    """Refuse a limit below 1."""
    if limit is not None and limit < 1:
        raise BadConfig(f"limit is {limit}; give a number from 1 on, or none for all")


def check_name(name: str) -> None:
    """Refuse an invalid name of a backfill."""
    if not 1 <= len(name) <= NAME_CHARS_MAX or "/" in name or not name.isprintable():
        raise BadConfig(
            f"name is {cut(name)!r}; give 1 to {NAME_CHARS_MAX} printable characters other than '/', the same ones"
            " when the backfill is run again"
        )


def check_target(to_queue: str | None, to_kind: str | None, keep: Duration) -> None:
    """Refuse an invalid queue or kind, and keys that are not kept."""
    if to_queue is not None:
        _ = Queue.parse(to_queue, DEFAULT_TENANT, 1)
    if to_kind is not None:
        check_text("kind", to_kind, KIND_CHARS_MAX)
    if not duration_ms("keep", keep):
        raise BadConfig("keep is 0; give how long keys are remembered, such as 30d")


def needs_bodies(sql: str) -> bool:
    """Whether SQL may use payloads, headers or results, which are read only on request."""
    return _BODIES.search(sql) is not None


def store_now_ms(url: str) -> int:
    """The clock of the store: later events and deaths were not counted, and are left alone."""
    with connect(url) as (runner, store):
        return runner.run(store.now_ms())


@contextmanager
def counted_rows(frame: "DataFrame", texts: Mapping[str, str]) -> Iterator[tuple["DataFrame", int]]:
    """The rows of a frame and their number, persisted for this block so that the counted rows are the written ones.

    An error of a user's SQL on a row is raised here in one sentence (see `at_run_time`).
    """
    # Commands check their options by the functions above, without Spark.
    from pyspark import StorageLevel

    from headrace.pipeline.spark_errors import unwrap_errors
    from headrace.pipeline.sql import at_run_time

    with unwrap_errors(), at_run_time(texts):
        rows = frame.persist(StorageLevel.MEMORY_AND_DISK)  # computes constants already
    try:
        with unwrap_errors(), at_run_time(texts):
            count = rows.count()
        yield rows, count
    finally:
        rows.unpersist()


def outcome_text(counts: dict[str, int], refused: dict[str, int], examples: dict[str, str]) -> str:
    """Counts by outcome and the refused rows, as part of a sentence."""
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    if refused:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(refused.items()))
        example = examples[max(refused, key=lambda reason: refused[reason])]
        parts.append(f"{sum(refused.values()):,} refused ({reasons}; for example: {example})")
    return ", ".join(parts) or "none was enqueued"


def count_text(count: int, noun: str) -> str:
    """A number of things: 1 job, 2,500 jobs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
