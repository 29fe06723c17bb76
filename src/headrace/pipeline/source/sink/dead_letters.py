"""Replays the dead letters that rows name, each once even if a task is repeated."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from headrace.client.tasks import retry
from headrace.model.errors import BadConfig, Refused
from headrace.model.event import Span
from headrace.model.finished import DeadLetterKey
from headrace.model.job import check_id
from headrace.model.limits import BATCH_MAX, DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.results import Replayed
from headrace.model.validate import check_int
from headrace.pipeline.source.discovery import QueueRef, TargetQueues, queue_refs
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.columns import TEXT, WHOLE, ColumnSpec, check_columns, texts, values
from headrace.pipeline.source.sink.result import HASH_BYTES, WriteRun, WriteTally
from headrace.stores.catalog import find_queue
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.store import Store


class ReplayBatches:
    """Reads the replays of queues from their journals, since the start of a run."""

    def __init__(self, journal: Journal, started_at_ms: int) -> None:
        self._journal = journal
        self._started_at_ms = started_at_ms
        self._seen: dict[Queue, list[int]] = {}
        """The last read seq of each shard."""
        self._dead_letters: dict[tuple[Queue, DeadLetterKey], str] = {}
        self._ids: dict[tuple[Queue, str], DeadLetterKey] = {}

    async def look(self, queue: Queue) -> None:
        """Read new events."""
        shards = queue.all_shards()
        bounds = await self._journal.all_bounds(shards)
        if queue not in self._seen:
            spans = [Span(shard, each.first_seq - 1, each.last_seq) for shard, each in zip(shards, bounds, strict=True)]
            self._seen[queue] = list(await self._journal.reached(spans, max(self._started_at_ms - 1, 0)))
        seen = self._seen[queue]
        for shard, each in zip(shards, bounds, strict=True):
            while seen[shard.index] < each.last_seq:
                entries = await self._journal.read(shard, seen[shard.index], each.last_seq)
                for event in (event for entry in entries for event in entry.events(shard)):
                    if (
                        event.line.event == "replayed"
                        and event.line.dead_letter is not None
                        and event.line.id is not None
                    ):
                        key = DeadLetterKey(shard.index, event.line.dead_letter)
                        self._dead_letters[queue, key] = event.line.id
                        self._ids[queue, event.line.id] = key
                seen[shard.index] = entries[-1].last_seq if entries else each.last_seq

    def find(self, queue: Queue, pick: DeadLetterKey | str) -> DeadLetterKey | None:
        """The dead letter that was replayed for a pick, if any."""
        if isinstance(pick, str):
            return self._ids.get((queue, pick))
        return pick if (queue, pick) in self._dead_letters else None


GOLDEN = (5**0.5 - 1) / 2
"""Steps of this fraction of a circle stay far from earlier ones: after any number of steps they are evenly spread."""


class Spread:
    """Spreads the due times of rows: a call of n rows has one in each n-th of the time, at an offset that changes from
    call to call, so that many small calls are as even as a large one."""

    def __init__(self, spread_ms: int, start: float) -> None:
        """`start`, between 0 and 1, must differ between tasks, or single rows of each would be due together."""
        self._spread_ms = spread_ms
        self._phase = start % 1

    def first_ms(self, count: int) -> int:
        """When the first of the next `count` rows is due; the others follow in steps of a `count`-th of the time."""
        first_ms = int(self._phase * self._spread_ms / count)
        self._phase = (self._phase + GOLDEN) % 1
        return first_ms


COLUMNS: dict[str, ColumnSpec] = {"tenant": TEXT, "queue": TEXT, "shard": WHOLE, "dead_letter": WHOLE, "id": TEXT}
Pick = DeadLetterKey | str


class DeadSink:
    """Replays the dead letter of each row: by shard and number, else the newest one of an id.

    Other columns are ignored, so that rows read with `what=dead` can be written back.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        names = check_columns("dead", schema, COLUMNS, hint="", others=True)
        self._at = {name: at for at, name in enumerate(names) if name in COLUMNS}
        if "queue" not in self._at and options.name is None:
            raise BadConfig("replays need a queue; give a column 'queue' or option queue")
        if "id" not in self._at and not {"shard", "dead_letter"} <= self._at.keys():
            raise BadConfig("replays need columns 'shard' and 'dead_letter', as read with what=dead, or 'id'")
        if options.delay_ms + options.spread_ms > DURATION_MS_MAX:
            raise BadConfig("options delay and spread together are more than a year; make them shorter")

    async def check(self, store: Store) -> None:
        """Refuse options whose queue does not exist."""
        name, tenant = self._options.name, self._options.tenant
        if name is not None and await find_queue(store, tenant, name) is None:
            raise BadConfig(f"there is no queue {name!r} of tenant {tenant!r} whose dead letters could be replayed")

    async def write(self, store: Store, run: WriteRun, rows: Iterator[pa.RecordBatch]) -> WriteTally:
        """Replay a task's rows."""
        tally, queues = WriteTally(), TargetQueues(None)
        task = _ReplayTask(store, ReplayBatches(store.journal, run.started_at_ms), self._options, tally)
        for batch in rows:
            tally.rows += batch.num_rows
            cells = {
                name: (texts if COLUMNS[name] is TEXT else values)(batch.column(at)) for name, at in self._at.items()
            }
            refs = list(queue_refs(self._options, batch.num_rows, cells.get("tenant"), cells.get("queue")))
            await queues.learn(store, refs)
            for queue, picks in _picks(queues, refs, cells, tally).items():
                for start in range(0, len(picks), BATCH_MAX):
                    await task.replay(queue, picks[start : start + BATCH_MAX])
        return tally


def _picks(
    queues: TargetQueues, refs: Sequence[QueueRef], cells: dict[str, list[Any]], tally: WriteTally
) -> dict[Queue, list[Pick]]:
    """What the rows name, by queue."""
    found: dict[Queue, list[Pick]] = {}
    columns = (cells.get(name, repeat(None, len(refs))) for name in ("shard", "dead_letter", "id"))
    for ref, shard, dead_letter, id in zip(refs, *columns, strict=True):
        try:
            queue = queues.get(ref)
            found.setdefault(queue, []).append(_pick(queue, shard, dead_letter, id))
        except Refused as refused:
            tally.refuse(refused.reason, str(refused))
    return found


def _pick(queue: Queue, shard: int | None, dead_letter: int | None, id: str | None) -> Pick:
    if shard is not None and dead_letter is not None:
        check_int("shard", shard, 0, queue.shards - 1)
        check_int("dead_letter", dead_letter, 1, 2**63 - 1)
        return DeadLetterKey(shard, dead_letter)
    if id is None:
        raise Refused(
            "bad_dead_letter", "the row names no dead letter; fill columns 'shard' and 'dead_letter', or 'id'"
        )
    check_id(id, queue)
    return id


class _ReplayTask:
    """Replays picks of a queue and counts the outcomes."""

    def __init__(self, store: Store, replays: ReplayBatches, options: WriteOptions, tally: WriteTally) -> None:
        self._store = store
        self._replays = replays
        self._options = options
        self._tally = tally
        self._spread: Spread | None = None

    async def replay(self, queue: Queue, picks: Sequence[Pick]) -> None:
        """Replay what this run has not replayed yet."""
        # An id names its newest dead letter: once that is replayed, another one would be.
        by_id = any(isinstance(pick, str) for pick in picks)

        async def ask() -> tuple[list[Pick], list[DeadLetterKey], Sequence[Replayed]]:
            if by_id:
                await self._replays.look(queue)
            fresh, known = _split_replayed(queue, picks, self._replays)
            return fresh, known, await self._ask(queue, fresh)

        fresh, ours, answers = await retry(ask)
        gone: list[Pick] = []
        for pick, answer in zip(fresh, answers, strict=True):
            if answer.status == "replayed" and answer.key is not None:
                self._tally.counts["replayed"] += 1
                ours.append(answer.key)
            elif answer.status == "id_in_use" and isinstance(pick, DeadLetterKey):
                self._tally.counts["in_use"] += 1
            else:
                gone.append(pick)
        ours += await self._found(queue, gone, answers)
        self._tally.put_in(b"".join(_hash(queue, key) for key in ours))

    async def _ask(self, queue: Queue, picks: Sequence[Pick]) -> Sequence[Replayed]:
        if not picks:
            return []
        if self._spread is None:
            self._spread = Spread(self._options.spread_ms, _part(queue, picks[0]))
        return await self._store.dead.replay(
            queue,
            picks,
            keep_counts=self._options.keep_counts,
            delay_ms=self._options.delay_ms + self._spread.first_ms(len(picks)),
            spread_ms=self._options.spread_ms,
        )

    async def _found(self, queue: Queue, gone: Sequence[Pick], answers: Sequence[Replayed]) -> list[DeadLetterKey]:
        """The dead letters that are gone because this run has replayed them; counts the others."""
        if not gone:
            return []
        await self._replays.look(queue)
        in_use = {answer.id for answer in answers if answer.status == "id_in_use"}
        found = []
        for pick in gone:
            key = self._replays.find(queue, pick)
            if key is not None:
                found.append(key)
            else:
                self._tally.counts["in_use" if pick in in_use else "not_found"] += 1
        return found


def _split_replayed(
    queue: Queue, picks: Sequence[Pick], replays: ReplayBatches
) -> tuple[list[Pick], list[DeadLetterKey]]:
    """What is still to be replayed, each once, and the dead letters of what this run has replayed."""
    fresh: list[Pick] = []
    known: list[DeadLetterKey] = []
    for pick in picks:
        key = replays.find(queue, pick)
        if key is None:
            fresh.append(pick)
        else:
            known.append(key)
    return fresh, known


def _hash(queue: Queue, key: DeadLetterKey) -> bytes:
    text = f"{queue.tenant}\0{queue.full_name}\0{key.shard}\0{key.number}"
    return blake2b(text.encode(), digest_size=HASH_BYTES).digest()


def _part(queue: Queue, pick: Pick) -> float:
    """A number between 0 and 1 that a task gets from its first pick: another one in each task, the same in each try."""
    text = f"{queue.tenant}\0{queue.full_name}\0{pick}"
    drawn = int.from_bytes(blake2b(text.encode(), digest_size=HASH_BYTES).digest())
    return drawn / float(2 ** (8 * HASH_BYTES))
