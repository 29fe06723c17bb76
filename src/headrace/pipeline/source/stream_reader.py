"""Implements Spark's interface for streams, for journals, results and feeds alike."""

from abc import abstractmethod
from asyncio import Runner, sleep
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from headrace.model.errors import BadConfig
from headrace.pipeline.source.compat import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import HostPartition
from headrace.pipeline.source.schema import Table
from headrace.pipeline.source.store_access import check_host, connect
from headrace.stores.contract.store import Store

OffsetJson = Mapping[str, Any]
"""An offset in Spark's checkpoint."""

LOOK_EVERY_MS = 50
"""The interval of polls of an idle stream; Spark's 10 ms would load the store."""
FIND_EVERY_MS = 1_000
"""The interval of searches for new queues and feeds: to list a thousand of them costs more than to poll them."""


class Pause:
    """Limits how often an idle stream polls its store."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._idle_at_ms: int | None = None

    def note(self, is_idle: bool) -> None:
        """Note whether the last poll found nothing."""
        self._idle_at_ms = self._now_ms() if is_idle else None

    async def rest(self) -> None:
        """Wait until the next poll is due: at once, unless the last one found nothing."""
        if self._idle_at_ms is not None:
            left_ms = self._idle_at_ms + LOOK_EVERY_MS - self._now_ms()
            await sleep(max(left_ms, 0) / 1_000)


class TriggerDelay:
    """Delays a batch until it has the events of option minEventsPerTrigger, or maxTriggerDelay has passed."""

    def __init__(self, options: SourceOptions, now_ms: Callable[[], int]) -> None:
        self._events_min = options.events_min or 0
        self._delay_ms = options.trigger_delay_ms
        self._now_ms = now_ms
        self._batch_at_ms: int | None = None

    def is_due(self, events: int) -> bool:
        """Whether to read a batch of this many events now; always for the first one, as with Kafka."""
        now_ms = self._now_ms()
        if events < self._events_min and self._batch_at_ms is not None and now_ms < self._batch_at_ms + self._delay_ms:
            return False
        if events:
            self._batch_at_ms = now_ms
        return True


class SparkOffset(Protocol):
    """The end of a batch and the beginning of the next."""

    def to_json(self) -> dict[str, Any]:
        """The offset for Spark's checkpoint."""


Offset = TypeVar("Offset", bound=SparkOffset)
Span = TypeVar("Span")
Answer = TypeVar("Answer")


class OffsetPlanner(Protocol[Offset, Span]):
    """Plans the batches of a stream over a store, without Spark."""

    async def initial(self) -> Offset:
        """Where a stream without a checkpoint begins; the same in every call, since Spark calls several times."""

    async def prepare_available_now(self) -> None:
        """Read up to the present end and no further."""

    async def latest(self, start: Offset | None, rows_max: int | None, /) -> Offset:
        """Where the batch that begins at `start` ends; `start` itself when there is nothing new."""

    def report(self) -> dict[str, Any] | None:
        """How far the store is, and by how much the last batch stays behind (`lag`); None before the first."""

    async def plan(self, start: Offset, end: Offset) -> list[Span]:
        """What the batch between two offsets reads."""


class StreamPartition(HostPartition, Generic[Span]):
    """The spans of one task."""

    def __init__(self, spans: tuple[Span, ...]) -> None:
        super().__init__(spans)
        self.spans = spans


class OffsetStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[Offset, Span]):
    """A stream of batches. A kind of stream implements `follow`, `parse`, `split` and `read_spans`.

    Spark keeps one reader in a separate process while the query lives, in which the store stays open. A task gets a
    copy with `options` and `table` only."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self.options = options
        self.table = table
        self._runner: Runner | None = None
        self._follower: OffsetPlanner[Offset, Span] | None = None
        self._resumed: OffsetJson | None = None
        """The end of a checkpoint, until Spark 4.1 continues from it."""
        self._end: OffsetJson | None = None
        """The end of the last batch of Spark 4.1."""
        self._open = ExitStack()

    @abstractmethod
    def follow(self, store: Store) -> OffsetPlanner[Offset, Span]:
        """The planner of the batches."""

    @abstractmethod
    def parse(self, stored: OffsetJson) -> Offset:
        """The offset of a checkpoint; raises `BadConfig` for a foreign one."""

    @abstractmethod
    def split(self, spans: Sequence[Span]) -> list[tuple[Span, ...]]:
        """The spans of a batch, by task."""

    @abstractmethod
    def read_spans(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        """The rows of a task's spans, with the columns of `table`."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # For an empty read, Spark passes a partition of another type.
        if isinstance(partition, StreamPartition):
            check_host(self.options.url, partition.planned_on)
            yield from self.read_spans(partition.spans)

    # The methods below have Spark's names and run in one process that lives as long as the query.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._run(self._follow().initial()).to_json()

    def latestOffset(self, start: OffsetJson | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        if start is None:
            # Spark 4.1 passes neither, and shows the end of a checkpoint by an empty batch.
            self._end = self._latest(self._resumed, None)
            self._resumed = None
            return dict(self._end)
        return self._latest(start, limit)

    def _latest(self, start: OffsetJson | None, limit: ReadLimit | None) -> dict[str, Any]:
        begin = None if start is None else self.parse(start)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        latest = self._run(self._follow().latest(begin, rows_max))
        # Unchanged, since Spark compares texts.
        return dict(start) if start is not None and latest is begin else latest.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.options.events_max is None else ReadMaxRows(self.options.events_max)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._follow().report()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._run(self._follow().prepare_available_now())

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        if start == end:
            if self._end is None:
                self._resumed = end
            elif end != self._end:
                raise BadConfig(
                    "spark.sql.streaming.triggerAvailableNowWrapper.enabled is true, with which Spark 4.1 plans a batch"
                    " before it shows where the checkpoint ends; set it to false"
                )
            return []
        spans = self._run(self._follow().plan(self.parse(start), self.parse(end)))
        return [StreamPartition(part) for part in self.split(spans)]

    def commit(self, end: OffsetJson) -> None:
        """Nothing: Spark calls it a batch late, and never for the last one."""

    def stop(self) -> None:
        self._follower = self._runner = None
        self._open.close()

    def _follow(self) -> OffsetPlanner[Offset, Span]:
        if self._follower is None:
            self._runner, store = self._open.enter_context(connect(self.options.url))
            self._follower = self.follow(store)
        return self._follower

    def _run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        assert self._runner is not None  # _follow has opened the store
        return self._runner.run(call)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.options, self.table)
