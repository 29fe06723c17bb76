"""What a map is to do, found to be possible before anything is written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from headrace.app.app import App
from headrace.app.job_function import JobTemplate
from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.model.times import Duration, duration_ms
from headrace.pipeline.flows.fleet.run import executor_url
from headrace.pipeline.flows.map.keys import Key, check_name, key_of
from headrace.pipeline.flows.map.results import result_type_of
from headrace.pipeline.flows.map.table import check_table
from headrace.pipeline.flows.map.taking import MapWork, payload_of, work_of
from headrace.pipeline.source.store_access import check_url


class Wish(Struct, frozen=True, kw_only=True):
    """What was asked for, as it was."""

    app: App | str
    kind: str | JobTemplate[..., Any]
    key: str | Sequence[str]
    name: str
    url: str | None
    queue: str | Queue | None
    tenant: str | None
    payload: str | None
    keep: Duration
    schema: str | None
    shards: int | None
    folder: Path | None


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be done."""

    name: str
    url: str
    queue: Queue
    is_own: bool
    """Whether the queue is the map's own, so that it may be configured."""
    work: MapWork
    key: Key
    payload: str
    """SQL."""
    keep_ms: int
    result_type: DataType | None
    folder: Path | None


def planned(frame: DataFrame, wish: Wish) -> Plan:
    """The plan for a frame; raises `BadConfig` or `Refused` with a sentence to act on."""
    check_name(wish.name)
    work = work_of(wish.app, wish.kind)
    keep_ms = duration_ms("keep", wish.keep)
    if not keep_ms:
        raise BadConfig("keep is 0, and results must be there until they are collected; give it some time, such as 7d")
    key, result_type = key_of(frame, wish.key), result_type_of(frame, wish.schema)
    if wish.folder is not None:
        check_table(frame.sparkSession, wish.folder, key, result_type)
    return Plan(
        name=wish.name,
        url=check_url(executor_url(wish.url if wish.url is not None else work.app.url)),
        queue=_queue_of(wish, work),
        is_own=wish.queue is None,
        work=work,
        key=key,
        payload=payload_of(work, frame, wish.payload),
        keep_ms=keep_ms,
        result_type=result_type,
        folder=wish.folder,
    )


def _queue_of(wish: Wish, work: MapWork) -> Queue:
    if isinstance(wish.queue, Queue):
        return wish.queue
    return Queue(wish.queue or f"map-{wish.name}", wish.tenant or work.app.maker.tenant, wish.shards or 1)
