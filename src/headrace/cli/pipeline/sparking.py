"""Brings Spark up for a command, shows that, and lets it go again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli.main import TRACEBACK
from headrace.cli.pipeline.line import Line
from headrace.cli.pipeline.options import Engine
from headrace.model.errors import BadConfig

if TYPE_CHECKING:
    from headrace.pipeline.watch import Spark

PACKAGES = ("pyspark", "pyarrow", "pandas", "py4j")


@contextmanager
def sparked(engine: Engine, line: Line) -> Iterator["Spark"]:
    """A Spark for this block, whose tasks the line shows."""
    line.stage("starting Spark")
    try:
        from headrace.pipeline.running import running
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise BadConfig("the pipeline needs Spark; pip install 'headrace[spark]'") from missing
    # With a traceback asked for, what Spark has to say is wanted as well.
    with running("headrace pipeline", engine.master, engine.conf, quiet=not os.environ.get(TRACEBACK)) as spark:
        yield spark
