"""Reading journals with Spark: rows a second beside the bare fetch-and-parse, and seconds for many short journals."""

import time
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from benchmarks.load import QUEUE
from benchmarks.running import Say
from benchmarks.spark_bare import bare_rows
from benchmarks.spark_filling import MANY


def frame_of(spark: SparkSession, url: str, tenant: str, partitions: int) -> DataFrame:
    """The journals of a tenant."""
    options = {"url": url, "tenant": tenant, "minPartitions": str(partitions)}
    return spark.read.format("headrace").options(**options).load()


def read_s(frame: DataFrame) -> float:
    """Seconds to read everything and drop it."""
    begun = time.perf_counter()
    frame.write.format("noop").mode("append").save()
    return time.perf_counter() - begun


def bare_rate(url: str, events: int, rounds: int, say: Say) -> float:
    """Rows a second of the bare reference, median."""
    found = []
    for number in range(rounds):
        begun = time.perf_counter()
        rows = bare_rows(url)
        found.append(rows / (time.perf_counter() - begun))
        assert rows == events, f"the bare reference has found {rows:,} of {events:,} events"
        say(f"bare, round {number + 1} of {rounds}: {found[-1]:,.0f} rows/s")
    return median(found)


def read_rate(spark: SparkSession, url: str, events: int, threads: int, rounds: int, say: Say) -> float:
    """Rows a second of a read of the long journal, median; the first one is not counted."""
    frame = frame_of(spark, url, QUEUE.tenant, threads)
    found = frame.count()
    assert found == events, f"Spark has found {found:,} of {events:,} events"
    rates = []
    for number in range(rounds):
        rates.append(events / read_s(frame_of(spark, url, QUEUE.tenant, threads)))
        say(f"{threads} at once, round {number + 1} of {rounds}: {rates[-1]:,.0f} rows/s")
    return median(rates)


def queues_s(spark: SparkSession, url: str, events: int, threads: int) -> float:
    """Seconds to plan and read many short journals."""
    found = frame_of(spark, url, MANY, threads).count()
    assert found == events, f"Spark has found {found:,} of {events:,} events"
    begun = time.perf_counter()
    read_s(frame_of(spark, url, MANY, threads))
    return time.perf_counter() - begun
