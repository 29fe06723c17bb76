"""Errors of rows that Spark finds only when it reads them, in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.model.errors import BadConfig
from headrace.model.validate import cut
from headrace.pipeline.spark_errors import headrace_error
from headrace.pipeline.sql import unlogged

SAID_CHARS_MAX = 300
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] ")
"""How Spark begins what it says; the error of a stream has that of its batch behind its own."""


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Within this block, an error of Spark is one sentence of ours, which begins with `what`, and is logged nowhere."""
    with unlogged():
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            told = headrace_error(error)
            raise told or BadConfig(f"{what}: {first_words(error)}") from None


def first_words(error: Exception) -> str:
    """The first sentence of what Spark says: the rest is where in its plan it was found.

    Of an error in a task, that of the task: "Job aborted due to stage failure" says nothing.
    """
    lines = [line.strip() for line in str(error).strip().splitlines()]
    reasons = [line for line in lines if line.startswith("Caused by: ") and "] " in line] or [
        line for line in lines if line and "An error occurred while calling" not in line
    ]
    said = (reasons[-1:] if reasons and reasons[-1].startswith("Caused") else reasons[:1]) or ["nothing more is known"]
    words = _CONDITION.split(said[0].split(" SQLSTATE:")[0])[-1]
    return cut(words.rstrip(". "), SAID_CHARS_MAX)
