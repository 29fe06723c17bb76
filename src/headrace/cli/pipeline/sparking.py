"""Brings Spark up for a command, shows that, and lets it go again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli.main import TRACEBACK
from headrace.cli.pipeline.line import ProgressLine
from headrace.cli.pipeline.options import SparkEngine
from headrace.pipeline.packages import needing_spark

if TYPE_CHECKING:
    from headrace.pipeline.query_progress import Spark

FEW_EVENTS = 500_000
"""Below this a run is over before Java's better compiler has paid for itself."""


@contextmanager
def sparked(engine: SparkEngine, line: ProgressLine, events: int | None) -> Iterator["Spark"]:
    """A Spark for this block, whose tasks the line shows; quick to start when there are few `events` to read, and None
    when nobody knows how many there will be."""
    with line.running("starting Spark"):
        with needing_spark():
            from headrace.pipeline.spark_session import SHORT_RUN, open_session
        conf = (SHORT_RUN if events is not None and events < FEW_EVENTS else {}) | engine.conf
        # With a traceback asked for, what Spark has to say is wanted as well.
        quiet = not os.environ.get(TRACEBACK)
        with open_session("headrace pipeline", engine.master, conf, quiet=quiet) as spark, line.of_spark(spark):
            yield spark
