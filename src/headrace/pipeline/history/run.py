"""Runs the history: a stream of the journals into files, each event exactly once."""

from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.background import StorePortal
from headrace.model.errors import BadConfig
from headrace.model.limits import HISTORY_EVENTS_MAX, HISTORY_EVERY_MS
from headrace.model.validate import check_int
from headrace.pipeline.history.batch import Writer
from headrace.pipeline.history.consumer import HistoryConsumer
from headrace.pipeline.history.delta import check_installed
from headrace.pipeline.history.layout import CHECKPOINT, history_folder, spark_path
from headrace.pipeline.history.lock import take_lock
from headrace.pipeline.history.resume import begin, check_folder, find_begins, first_batch, is_named, renew
from headrace.pipeline.history.state import FORMS, Form
from headrace.pipeline.source.compat import limit_options
from headrace.pipeline.source.options import ALL, EVENTS_PER_TRIGGER_MAX, SourceOptions
from headrace.pipeline.spark_session import is_connect

NAME = "history"
"""Of the query, and of the consumer in the journals unless another is given."""
_DAY_MS = 86_400_000


def follow_history(
    spark: SparkSession,
    url: str,
    folder: str | Path,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    once: bool = False,
    every_ms: int = HISTORY_EVERY_MS,
    events_max: int = HISTORY_EVENTS_MAX,
    payloads: bool = False,
    form: Form = "parquet",
    consumer: str | None = NAME,
    hold: bool = False,
    fail_on_loss: bool = True,
) -> StreamingQuery:
    """Write every event of the journals at `url` to Parquet files by day and queue, each exactly once.

    Starts a query and returns it: `awaitTermination()` waits for its end, `stop()` ends it. It goes on where the folder
    ends, whatever has stopped the last run. `once` writes what is there now and ends. A batch comes every `every_ms`
    and holds at most `events_max` events. With `payloads`, payloads and results are written as far as the store still
    has them. `consumer` is advanced in each journal when its files are in place; with `hold`, retention waits for it.
    Events that the store has dropped or lost before they were read fail the query, or with `fail_on_loss=False` are
    counted in the state. The folder is a path that the driver and all executors see.
    """
    check_int("every_ms", every_ms, 0, _DAY_MS)
    check_int("events_max", events_max, 1, EVENTS_PER_TRIGGER_MAX)
    if form not in FORMS:
        raise BadConfig(f"form is {form!r}; give {' or '.join(FORMS)}")
    home = history_folder(folder)
    if form == "delta":
        check_installed()
    given = {"url": url, "tenant": tenant, "queue": queue, "failOnDataLoss": str(fail_on_loss).lower()}
    if payloads:
        given["payloads"] = "true"
    # Spark would find the same faults, but wrap them into a page of its own.
    options = SourceOptions.parse(given)
    reader = None if consumer is None else HistoryConsumer(consumer, options, hold=hold)
    check_folder(home, form)
    home.mkdir(parents=True, exist_ok=True)
    lock = take_lock(home)
    try:
        first, begins = _resume(home, form, options, reader)
        if begins is not None:
            given["startingOffsets"] = msgspec.json.encode(begins).decode()
        stream = spark.readStream.format("headrace").options(**given, **limit_options(events_max)).load()
        batches = Writer(home, lock, first, options, reader)
        writer = stream.writeStream.queryName(NAME).foreachBatch(batches.write)
        writer = writer.option("checkpointLocation", spark_path(home / CHECKPOINT))
        every = f"{every_ms} milliseconds"
        if is_connect(spark):
            # The process of the server that writes the batches takes it over.
            lock.release()
        query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)).start()
    except BaseException:
        lock.release()
        raise
    if not is_connect(spark):
        lock.until_ended(query)
    return query


def _resume(
    home: Path, form: Form, options: SourceOptions, consumer: HistoryConsumer | None
) -> tuple[int, dict[str, int] | None]:
    """The number of the first batch of the checkpoint, and where journals begin if it is a new one."""
    state = begin(home, form, payloads=options.payloads)
    begins = None
    first = first_batch(home, state, options)
    if first is None:
        if state.shards:
            with StorePortal(options.url) as portal:
                begins = portal.call(lambda store: find_begins(store, options, state.shards))
        first = renew(home, state, options)
    seqs = {name: mark.seq for name, mark in state.shards.items() if is_named(name, options)}
    if consumer is not None and seqs:
        # A run that was killed may have noted a batch and not told the store; and where nothing happens for now,
        # retention must hold what happens next.
        with StorePortal(options.url) as portal:
            portal.call(lambda store: consumer.advance(store, seqs))
    return first, begins
