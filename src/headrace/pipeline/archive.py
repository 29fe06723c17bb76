"""Starts Spark from an archive of its classes, if one was made: Java then need not read and check them one by one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pyspark

from headrace.pipeline.java import Java

OPTIONS = "SPARK_SUBMIT_OPTS"
"""Further options for Spark's Java. Not a setting of Spark: it would replace one of the user's spark-defaults.conf."""

_QUIET = "-Xlog:disable -Xlog:all=warning:stderr"
"""Java warns on stdout by itself, where a command prints its answer."""


def archive_of(java: Java, cache: Path) -> Path:
    """Where the archive for this Java and this Spark is kept, made or not."""
    spark = sha256(str(Path(pyspark.__file__).resolve().parent).encode()).hexdigest()[:8]
    return cache / f"spark-{pyspark.__version__}-{spark}-java-{java.version}.jsa"


@contextmanager
def from_archive(archive: Path) -> Iterator[None]:
    """Within this block, Spark's Java starts from the archive if there is one; Java itself leaves out what does not
    fit."""
    if not archive.is_file() or any(sign.isspace() for sign in str(archive)):  # Spark cuts the options at spaces
        yield
        return
    with further_options(f"-XX:SharedArchiveFile={archive} {_QUIET}"):
        yield


@contextmanager
def further_options(options: str) -> Iterator[None]:
    """Within this block, Spark's Java is started with these options too; the user's own come later and win."""
    before = os.environ.get(OPTIONS)
    os.environ[OPTIONS] = options if before is None else f"{options} {before}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[OPTIONS]
        else:
            os.environ[OPTIONS] = before
