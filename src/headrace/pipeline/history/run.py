"""Runs the history: a stream of the journals into files, each event exactly once."""

import shutil
import tempfile
from pathlib import Path

import msgspec
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.client.background import StorePortal
from headrace.model.clock import monotonic_ms
from headrace.model.limits import HISTORY_EVENTS_MAX, HISTORY_EVERY_MS
from headrace.model.validate import check_int
from headrace.pipeline.history.batch import HistoryConsumer, Writer
from headrace.pipeline.history.lock import take_lock
from headrace.pipeline.history.table import HistoryState, Split, history_table, read_state
from headrace.pipeline.source.compat import limit_options
from headrace.pipeline.source.journal.offset import Loss, Mark, Offset
from headrace.pipeline.source.journal.shards import FollowedShards, JournalIdentity
from headrace.pipeline.source.offsets import raise_data_loss
from headrace.pipeline.source.options import ALL, EVENTS_PER_TRIGGER_MAX, SourceOptions
from headrace.pipeline.spark_session import is_connect, partition_options
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import DataTable, Form
from headrace.stores.contract.store import Store

NAME = "history"
"""Of the query, and of the consumer in the journals unless another is given."""
CHECKPOINT = "_checkpoint"
_DAY_MS = 86_400_000


def follow_history(
    spark: SparkSession,
    url: str,
    folder: str | Path | Location,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    once: bool = False,
    every_ms: int = HISTORY_EVERY_MS,
    events_max: int | None = None,
    payloads: bool = False,
    form: Form | None = None,
    split: Split | None = None,
    consumer: str | None = NAME,
    hold: bool = False,
    fail_on_loss: bool = True,
) -> StreamingQuery:
    """Write every event of the journals at `url` to a table of Parquet files by day, each exactly once.

    Starts a query and returns it: `awaitTermination()` waits for its end, `stop()` ends it. It goes on where the table
    ends, whatever has stopped the last run. `once` writes what is there now and ends. A batch comes every `every_ms`
    and holds at most `events_max` events, 200,000 if that is None; Spark 4.1 has no bound. The folder is a path that
    the driver and all executors see, or a URL (`s3://`, `gs://`, `abfss://`). `form` is how a new table is kept:
    `delta`, which is the default where the package deltalake is installed, or `parquet`. `split="tenant"` gives each
    tenant folders of its own. With `payloads`, payloads and results are written as far as the store still has them.
    `consumer` is advanced in each journal when its events are committed; with `hold`, retention waits for it. Events
    that the store has dropped or lost before they were read fail the query, or with `fail_on_loss=False` are counted in
    the state.
    """
    check_int("every_ms", every_ms, 0, _DAY_MS)
    bound = HISTORY_EVENTS_MAX if events_max is None else events_max
    check_int("events_max", bound, 1, EVENTS_PER_TRIGGER_MAX)
    limit = limit_options(events_max, HISTORY_EVENTS_MAX)
    given = {"url": url, "tenant": tenant, "queue": queue, "failOnDataLoss": str(fail_on_loss).lower()}
    if payloads:
        given["payloads"] = "true"
    # Spark would find the same faults, but wrap them into a page of its own.
    options = SourceOptions.parse(given)
    table = _writable(folder, options, form, split)
    reader = None if consumer is None else HistoryConsumer(consumer, options, hold=hold)
    work = _work_folder(table.location)
    lock = take_lock(work, is_temporary=not table.location.is_local)
    try:
        table.prepare()
        state = read_state(table.location) or HistoryState()
        begins = _resume(state, options, reader)
        if begins is not None:
            # A journal that is gone begins anew if it comes back; one that the options leave out keeps its place.
            kept = {name: mark for name, mark in state.shards.items() if name in begins or not is_named(name, options)}
            state = replace(state, shards=kept)
            given["startingOffsets"] = msgspec.json.encode(begins).decode()
        # Of this run only: the next one begins where the table ends, which alone says what is written.
        checkpoint = work / CHECKPOINT
        shutil.rmtree(checkpoint, ignore_errors=True)
        given |= limit | partition_options(spark, bound)
        stream = spark.readStream.format("headrace").options(**given).load()
        batches = Writer(table, checkpoint, lock, state, options, reader)
        writer = stream.writeStream.queryName(NAME).foreachBatch(batches.write)
        writer = writer.option("checkpointLocation", Location.parse(checkpoint).spark_url)
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


def _writable(
    folder: str | Path | Location, options: SourceOptions, form: Form | None, split: Split | None
) -> DataTable:
    """The table as this run is to write it; one that is there stays split as it is."""
    table = history_table(folder, payloads=options.payloads, form=form, split=split)
    now = table.version()
    if now is not None and split is None and now.partition_by != table.layout.partition_by:
        return history_table(folder, payloads=options.payloads, form=form, split="tenant")
    table.check()
    return table


def _work_folder(location: Location) -> Path:
    """Where Spark's checkpoint and the lock lie: on object storage only the driver's own disk can have them."""
    return location.path if location.is_local else Path(tempfile.mkdtemp(prefix="headrace-history-"))


def _resume(state: HistoryState, options: SourceOptions, consumer: HistoryConsumer | None) -> dict[str, int] | None:
    """With which seq each journal goes on; None for a new history."""
    if not state.shards:
        return None
    seqs = {name: mark.seq for name, mark in state.shards.items() if is_named(name, options)}
    with StorePortal(options.url) as portal:
        begins = portal.call(lambda store: find_begins(store, options, state.shards))
        if consumer is not None and seqs:
            # A run that was killed may have committed a batch and not told the store; and where nothing happens for
            # now, retention must hold what happens next.
            portal.call(lambda store: consumer.advance(store, seqs))
    return begins


def is_named(name: str, options: SourceOptions) -> bool:
    """Whether the options mean the journal `tenant/queue/shard`."""
    tenant, queue, _ = name.split("/")
    return options.tenant in (ALL, tenant) and (not options.names or queue in options.names)


async def find_begins(store: Store, options: SourceOptions, marks: dict[str, Mark]) -> dict[str, int]:
    """The seq that each journal goes on with behind its mark; refuses or goes on, as the options say, where a
    journal is no longer the one that was read."""
    watch = JournalIdentity(FollowedShards(store, options, monotonic_ms))
    bounds, losses = await watch.look(Offset(shards=marks), is_first=False)
    if options.fails_on_loss:
        raise_data_loss([_sentence(each) for each in losses], "shards")
    begins = {name: mark.seq + 1 for name, mark in marks.items() if name in bounds}
    for each in losses:
        if each.name in bounds:
            begins[each.name] = (await watch.resume(each)).after + 1
    return begins


def _sentence(loss: Loss) -> str:
    name, seq, bounds = loss.name, loss.mark.seq, loss.bounds
    found = {
        "trimmed": f"retention has dropped what follows up to {bounds.first_seq - 1:,}",
        "gone": "the store has no such queue",
        "shorter": f"the store's journal ends at seq {bounds.last_seq:,}: it has lost its tail, or is another one",
        "changed": "the store's journal holds another event there: it has lost its tail, or is another one",
    }[loss.kind]
    return (
        f"the history holds {name} up to seq {seq:,}, and {found}; use a new folder, or give fail_on_loss=False to go"
        " on with what is there"
    )
