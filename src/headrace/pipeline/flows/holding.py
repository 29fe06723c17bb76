"""Frames that are counted first and written then: read once, so that what was shown is what is done."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from headrace.pipeline.spark_errors import unwrap_errors
from headrace.pipeline.sql import at_run_time


@contextmanager
def counted_rows(frame: DataFrame, texts: Mapping[str, str]) -> Iterator[tuple[DataFrame, int]]:
    """The rows of a frame, all of them computed, and how many there are; let go when the block ends.

    A value that SQL of a person cannot take is told here, in one sentence (see `at_run_time`).
    """
    with unwrap_errors(), at_run_time(texts):
        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)  # computes what is constant already
    try:
        with unwrap_errors(), at_run_time(texts):
            count = kept.count()
        yield kept, count
    finally:
        kept.unpersist()
