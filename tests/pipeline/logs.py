"""What Spark and its processes write to stderr while something is done."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.process import wait_until

END = "the end of the log"


@contextmanager
def logging_to(path: Path, spark: SparkSession) -> Iterator[None]:
    """Within this block Spark logs everything, into a file, which is whole when the block has ended.

    This process's own stderr goes there: pytest's capture cuts its file after each look into it, and loses what is
    written in between.
    """
    before = os.dup(2)
    spark.sparkContext.setLogLevel("INFO")
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
        java: Any = spark.sparkContext._jvm
        java.java.lang.System.err.println(END)
        wait_until(lambda: END in path.read_text(errors="replace"), "the log")
    finally:
        os.dup2(before, 2)
        os.close(before)
        spark.sparkContext.setLogLevel("ERROR")
