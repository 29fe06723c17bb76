"""Audits a store: Spark compares its journal with its records, and what differs is looked at again."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from msgspec.structs import replace
from pyspark.sql import SparkSession

from headrace.model.event import Bounds
from headrace.model.limits import AUDIT_FLAWS_MAX
from headrace.model.names import Queue, Shard
from headrace.pipeline.audit.checking import check_counts, check_misplaced, check_records
from headrace.pipeline.audit.findings import TORN, Audit, Finding
from headrace.pipeline.audit.frames import Frames, Place, StoredRecords, Suspects, place_of
from headrace.pipeline.audit.job_history import Story
from headrace.pipeline.audit.judge import MAYBE_OVER
from headrace.pipeline.audit.recheck import Stories, Tail, is_another, look_again
from headrace.pipeline.audit.words import flaw_finding, missing_finding
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.source.store_access import check_master, connect
from headrace.stores.contract.store import Store

Shards = dict[Shard, Bounds]


def audit(
    spark: SparkSession,
    url: str,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    on_progress: Callable[[str], None] | None = None,
) -> Audit:
    """Compare what the store at `url` holds with what its journal says, and name every job that does not add up.

    Workers may go on meanwhile: a record is compared with the journal as it stood when the record was read, and what
    differs is looked at again. `on_progress` is told in words what begins. Give `tenant` or `queue` (several with
    commas between them) to audit a part.
    """
    options = {"url": url, "tenant": tenant, "queue": queue}
    # Spark would find the same faults, but wrap them into a traceback of its own.
    parsed = SourceOptions.parse(options)
    check_master(url, spark)
    frames = Frames(spark, options)
    try:
        with connect(url) as (runner, store):
            return runner.run(_Auditing(frames, store, parsed, on_progress or (lambda _: None)).run())
    finally:
        frames.close()


class _Auditing:
    """One audit, step by step. Spark's own steps hold up the event loop, on which nothing else is under way."""

    def __init__(self, frames: Frames, store: Store, options: SourceOptions, tell: Callable[[str], None]) -> None:
        self._frames, self._store, self._options, self._tell = frames, store, options, tell
        self._findings: list[Finding] = []
        self._unlisted: Counter[Place] = Counter()
        self._moving = 0

    async def run(self) -> Audit:
        frames, tell = self._frames, self._tell
        before = await self._bounds()
        tell("reading records")
        counts, stood = frames.read_rows()
        tell("reading the journal")
        held = frames.read_events()
        shards = _lasting(before, await self._bounds(), stood, held)
        frames.take(shards, before)
        self._check_held(before, shards, held)
        tell("checking the journal")
        self._findings += [flaw_finding(row) for row in frames.flaws()]
        tell("comparing")
        compared = frames.compare()
        suspects = frames.suspects() if compared.differ or compared.moved else []
        tell(f"looking again at {len(suspects):,} jobs")
        await self._look_again(suspects, shards, held)
        await self._look_astray(shards)
        tell("checking records and counters")
        await self._check_records(shards)
        await self._check_counts(before, counts)
        findings, unlisted = await self._lasting_findings(shards)
        return Audit(
            events=sum(each.count for each in held.values()),
            jobs=compared.jobs,
            shards=len(shards),
            looks=len(suspects),
            findings=findings,
            more=max(compared.differ - len(suspects), 0) + unlisted,
            partly=compared.partly,
            moving=self._moving + min(compared.differ + compared.moved - len(suspects), compared.moved),
        )

    async def _bounds(self) -> Shards:
        queues = await find_queues(self._store, self._options)
        return await bounds_of(self._store.journal, [shard for queue in queues for shard in queue.all_shards()])

    def _check_held(self, before: Shards, shards: Shards, held: Mapping[Place, StoredRecords]) -> None:
        for shard, bounds in shards.items():
            last_seq = before[shard].last_seq if shard in before else 0
            found = missing_finding(shard, bounds, held.get(place_of(shard)), last_seq)
            self._findings += [found] if found else []

    async def _look_again(self, suspects: Suspects, shards: Shards, held: Mapping[Place, StoredRecords]) -> None:
        places = {place_of(shard): shard for shard in shards}
        stories: dict[Queue, dict[Shard, Stories]] = defaultdict(lambda: defaultdict(dict))
        for place, id, folded in suspects:
            shard = places[place]
            stories[shard.queue][shard][id] = None if folded is None else Story.of(folded)
        for queue, of_shards in stories.items():
            tails = {
                shard: Tail(self._store, shard, shards[shard], _last_seq(shard, shards[shard], held), told)
                for shard, told in of_shards.items()
            }
            looked = await look_again(self._store, queue, tails)
            self._findings += looked.findings
            self._moving += looked.moving

    async def _look_astray(self, shards: Shards) -> None:
        places = {place_of(shard): shard for shard in shards}
        astray: dict[Queue, list[tuple[Shard, str]]] = defaultdict(list)
        for row in self._frames.misplaced():
            shard = places[row["tenant"], row["queue"], row["shard"]]
            astray[shard.queue].append((shard, row["id"]))
        for queue, pairs in astray.items():
            self._findings += await check_misplaced(self._store, queue, pairs)

    async def _check_records(self, shards: Shards) -> None:
        listed = 0
        for shard in shards:
            async for finding in check_records(self._store, shard):
                if listed < AUDIT_FLAWS_MAX:
                    self._findings.append(finding)
                else:
                    self._unlisted[place_of(shard)] += 1
                listed += 1

    async def _check_counts(self, before: Shards, counts: Mapping[tuple[str, str, str], int]) -> None:
        stood = {shard: bounds.last_seq for shard, bounds in before.items()}
        shown: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for (tenant, name, state), number in counts.items():
            shown[tenant, name][state] = number
        for queue in dict.fromkeys(shard.queue for shard in before):
            found = await check_counts(self._store, queue, shown[queue.tenant, queue.full_name], stood)
            self._findings += [found] if found else []

    async def _lasting_findings(self, shards: Shards) -> tuple[tuple[Finding, ...], int]:
        """The findings, and how many are not listed. Without those of queues that were deleted meanwhile: their records
        go in steps, and write no events."""
        now = await self._bounds() if self._findings else {}
        there = {place_of(shard) for shard in shards if shard in now and not is_another(shards[shard], now[shard])}
        lasting = doubting_losses([each for each in self._findings if (each.tenant, each.queue, each.shard) in there])
        unlisted = sum(count for place, count in self._unlisted.items() if place in there)
        return tuple(sorted(lasting, key=lambda each: each.order)), unlisted


def doubting_losses(findings: list[Finding]) -> list[Finding]:
    """Findings in which nobody is told to enqueue a lost job again where the journal of its shard lacks events."""
    torn = {each.place for each in findings if each.what in TORN}
    return [replace(each, hint=MAYBE_OVER) if each.what == "lost" and each.place in torn else each for each in findings]


def _last_seq(shard: Shard, bounds: Bounds, held: Mapping[Place, StoredRecords]) -> int:
    """How far a journal was read: to its last event, or up to its beginning if it had none."""
    found = held.get(place_of(shard))
    return bounds.first_seq - 1 if found is None else found.last_seq


def _lasting(before: Shards, after: Shards, stood: Mapping[Place, int], held: Mapping[Place, StoredRecords]) -> Shards:
    """The shards that are there after everything was read, and were not made anew in between."""
    return {
        shard: bounds
        for shard, bounds in after.items()
        if not is_another(before.get(shard, bounds), bounds)
        and bounds.last_seq >= stood.get(place_of(shard), 0)
        and _is_of(bounds, held.get(place_of(shard)))
    }


def _is_of(bounds: Bounds, held: StoredRecords | None) -> bool:
    """Whether the events that were read are those of the journal that is there now."""
    if held is None:
        return True
    return bounds.last_seq >= held.last_seq and (
        held.first_seq != bounds.first_seq or held.first_at_ms == bounds.first_at_ms
    )
