"""Starts Spark from a class data archive (AppCDS), which `python -m headrace.pipeline.class_data_archive` makes."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.errors import BadConfig, HeadraceError
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.pipeline.java import Java, cache_folder, find_java, packaged_java
from headrace.stores.open import open_store

OPTIONS = "SPARK_SUBMIT_OPTS"
"""Java options in the environment: a setting of Spark would override the user's spark-defaults.conf."""
DUMP_SECONDS_MAX = 300
"""Java writes the archive when it exits; 10 s on an idle core."""

_QUIET = "-Xlog:disable -Xlog:all=warning:stderr"
"""Java prints warnings on stdout by default, which belongs to the command."""


def archive_path(java: Java, cache: Path) -> Path:
    """The path of the archive for this Java and this Spark."""
    spark = sha256(str(Path(pyspark.__file__).resolve().parent).encode()).hexdigest()[:8]
    return cache / f"spark-{pyspark.__version__}-{spark}-java-{java.version}.jsa"


@contextmanager
def use_archive(archive: Path) -> Iterator[None]:
    """Within this block, Spark's Java starts from the archive if it exists; Java skips classes that differ."""
    if not archive.is_file() or any(map(str.isspace, str(archive))):  # Spark splits options at spaces
        yield
        return
    with java_options(f"-XX:SharedArchiveFile={archive} {_QUIET}"):
        yield


@contextmanager
def java_options(options: str) -> Iterator[None]:
    """Within this block, Spark's Java starts with these options, too; the user's come later and win."""
    before = os.environ.get(OPTIONS)
    os.environ[OPTIONS] = options if before is None else f"{options} {before}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[OPTIONS]
        else:
            os.environ[OPTIONS] = before


def make_archive(*, anew: bool = False) -> Path:
    """Make the archive that sessions on this machine start from, if it is missing or `anew` is set; return its path.

    Takes about half a minute and 200 MB below `$XDG_CACHE_HOME/headrace` or `~/.cache/headrace`. Needs a process in
    which no Spark has run, since Java writes the archive when it exits. Each Java and each Spark has its own archive.
    """
    from headrace.pipeline.spark_session import SHORT_RUN, session  # imports this module

    if SparkContext._gateway is not None:
        raise BadConfig("the archive is made when Java ends; make it in a process in which no Spark has run")
    java = find_java(os.environ, packaged_java())
    archive = archive_path(java, cache_folder(os.environ))
    if archive.is_file() and not anew:
        return archive
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.unlink(missing_ok=True)
        # Written to a temporary name and renamed, so that no session starts from half an archive.
        with tempfile.TemporaryDirectory(prefix=".spark-", dir=archive.parent) as folder:
            fresh = Path(folder) / "fresh.jsa"
            with java_options(f"-XX:ArchiveClassesAtExit={fresh} -Xlog:disable"):
                spark = session("headrace archive", "local[1]", **SHORT_RUN)
            exercise(spark, Path(folder))
            spark.stop()
            _end_java()
            if not fresh.is_file():
                raise BadConfig(f"Java {java.version} in {java.home} makes no archive of classes; install another")
            fresh.replace(archive)
    except OSError as error:
        raise BadConfig(
            f"the archive cannot be written to {archive.parent} ({error.strerror}); set XDG_CACHE_HOME to a folder that"
            " can be written"
        ) from error
    return archive


def exercise(spark: SparkSession, folder: Path) -> None:
    """Run queries, tables, a stream and our own source, so that Java has loaded their classes."""
    url = f"sqlite:///{folder / 'jobs.db'}?profile=fast"
    asyncio.run(_fill(url))
    rows = spark.range(100).withColumn("k", F.col("id") % 7).withColumn("at", F.timestamp_millis("id"))
    counts = rows.groupBy("k", F.window("at", "1 second")).agg(F.count("*").alias("n"), F.max("at")).orderBy("k")
    counts.collect()
    rows.write.partitionBy("k").parquet(str(folder / "rows"))
    spark.read.parquet(str(folder / "rows")).join(rows, "id", how="left").groupBy("id").count().toArrow()
    rows.select(F.from_json(F.to_json(F.struct("*")), "id long").alias("row")).createOrReplaceTempView("exercise")
    spark.sql("SELECT row.id, row_number() OVER (ORDER BY row.id) AS n FROM exercise WHERE row.id > 5").toArrow()
    spark.read.format("headrace").option("url", url).load().where("event = 'enqueued'").collect()
    stream = spark.readStream.format("headrace").option("url", url).load().writeStream
    stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    stream.foreachBatch(lambda batch, _: batch.write.mode("append").parquet(str(folder / "batches"))).start()
    for query in spark.streams.active:
        query.awaitTermination()


async def _fill(url: str) -> None:
    store = await open_store(url)
    await store.jobs.enqueue([Job(queue=Queue("exercise"), id="one", kind="k")])
    await store.close()


def _end_java() -> None:
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(DUMP_SECONDS_MAX)


def main() -> int:
    """Make the archive if it is missing, and print its path."""
    try:
        archive = make_archive(anew="--anew" in sys.argv[1:])
    except HeadraceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Spark starts from {archive} ({archive.stat().st_size >> 20} MiB)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
