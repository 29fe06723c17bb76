"""Audits a store: Spark compares its journal with its records, and jobs that differ are checked again."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from msgspec.structs import replace
from pyspark.sql import SparkSession

from headrace.model.event import Bounds
from headrace.model.limits import AUDIT_FLAWS_MAX
from headrace.model.names import Queue, Shard
from headrace.pipeline.audit.compare import AuditFrames, ShardKey, Suspects, shard_key
from headrace.pipeline.audit.findings import INCOMPLETE, AuditReport, Finding
from headrace.pipeline.audit.journal_flaws import EventRange, flaw_finding, missing_finding
from headrace.pipeline.audit.judge import MAYBE_FINISHED, JobHistory
from headrace.pipeline.audit.recheck import (
    Histories,
    JournalTail,
    check_counts,
    check_misplaced,
    check_records,
    recheck_jobs,
    was_replaced,
)
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.source.store_access import check_master, connect
from headrace.stores.contract.store import Store

ShardBounds = dict[Shard, Bounds]


def audit(
    spark: SparkSession,
    url: str,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    on_progress: Callable[[str], None] | None = None,
) -> AuditReport:
    """Compare the records of the store at `url` with its journal, and report every job that differs.

    Workers may run meanwhile: a record is compared with the journal up to the event at which the record was read, and
    jobs that differ are checked again. `on_progress` is called with the name of each stage. `tenant` and `queue` (names
    separated by commas) select a part of the store.
    """
    options = {"url": url, "tenant": tenant, "queue": queue}
    # Spark would wrap the same errors in a traceback.
    parsed = SourceOptions.parse(options)
    check_master(url, spark)
    frames = AuditFrames(spark, options)
    try:
        with connect(url) as (runner, store):
            return runner.run(_Audit(frames, store, parsed, on_progress or (lambda _: None)).run())
    finally:
        frames.close()


class _Audit:
    """One audit, step by step. Spark blocks the event loop, which has nothing else to do."""

    def __init__(
        self, frames: AuditFrames, store: Store, options: SourceOptions, report_stage: Callable[[str], None]
    ) -> None:
        self._frames, self._store, self._options, self._report_stage = frames, store, options, report_stage
        self._findings: list[Finding] = []
        self._unlisted: Counter[ShardKey] = Counter()
        self._moving = 0

    async def run(self) -> AuditReport:
        frames, report_stage = self._frames, self._report_stage
        before = await self._bounds()
        report_stage("reading records")
        counts, last_seqs = frames.read_rows()
        report_stage("reading the journal")
        ranges = frames.read_events()
        shards = _unchanged_shards(before, await self._bounds(), last_seqs, ranges)
        frames.select_shards(shards, before)
        self._check_ranges(before, shards, ranges)
        report_stage("checking the journal")
        self._findings += [flaw_finding(row) for row in frames.flaws()]
        report_stage("comparing")
        comparison = frames.compare()
        suspects = frames.suspects() if comparison.differ or comparison.moved else []
        report_stage(f"checking {len(suspects):,} jobs again")
        await self._recheck(suspects, shards, ranges)
        await self._check_misplaced(shards)
        report_stage("checking records and counters")
        await self._check_records(shards)
        await self._check_counts(before, counts)
        findings, unlisted = await self._current_findings(shards)
        return AuditReport(
            events=sum(each.count for each in ranges.values()),
            jobs=comparison.jobs,
            shards=len(shards),
            rechecked=len(suspects),
            findings=findings,
            unlisted=max(comparison.differ - len(suspects), 0) + unlisted,
            partial=comparison.partial,
            moving=self._moving + min(comparison.differ + comparison.moved - len(suspects), comparison.moved),
        )

    async def _bounds(self) -> ShardBounds:
        queues = await find_queues(self._store, self._options)
        return await bounds_of(self._store.journal, [shard for queue in queues for shard in queue.all_shards()])

    def _check_ranges(self, before: ShardBounds, shards: ShardBounds, ranges: Mapping[ShardKey, EventRange]) -> None:
        for shard, bounds in shards.items():
            last_seq = before[shard].last_seq if shard in before else 0
            finding = missing_finding(shard, bounds, ranges.get(shard_key(shard)), last_seq)
            self._findings += [finding] if finding else []

    async def _recheck(self, suspects: Suspects, shards: ShardBounds, ranges: Mapping[ShardKey, EventRange]) -> None:
        by_key = {shard_key(shard): shard for shard in shards}
        histories: dict[Queue, dict[Shard, Histories]] = defaultdict(lambda: defaultdict(dict))
        for key, id, folded in suspects:
            shard = by_key[key]
            histories[shard.queue][shard][id] = None if folded is None else JobHistory.of(folded)
        for queue, by_shard in histories.items():
            tails = {
                shard: JournalTail(
                    self._store, shard, shards[shard], _last_read_seq(shard, shards[shard], ranges), of_shard
                )
                for shard, of_shard in by_shard.items()
            }
            result = await recheck_jobs(self._store, queue, tails)
            self._findings += result.findings
            self._moving += result.moving

    async def _check_misplaced(self, shards: ShardBounds) -> None:
        by_key = {shard_key(shard): shard for shard in shards}
        misplaced: dict[Queue, list[tuple[Shard, str]]] = defaultdict(list)
        for row in self._frames.misplaced():
            shard = by_key[row["tenant"], row["queue"], row["shard"]]
            misplaced[shard.queue].append((shard, row["id"]))
        for queue, ids in misplaced.items():
            self._findings += await check_misplaced(self._store, queue, ids)

    async def _check_records(self, shards: ShardBounds) -> None:
        listed = 0
        for shard in shards:
            async for finding in check_records(self._store, shard):
                if listed < AUDIT_FLAWS_MAX:
                    self._findings.append(finding)
                else:
                    self._unlisted[shard_key(shard)] += 1
                listed += 1

    async def _check_counts(self, before: ShardBounds, counts: Mapping[tuple[str, str, str], int]) -> None:
        last_seqs = {shard: bounds.last_seq for shard, bounds in before.items()}
        by_queue: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for (tenant, name, state), number in counts.items():
            by_queue[tenant, name][state] = number
        for queue in dict.fromkeys(shard.queue for shard in before):
            finding = await check_counts(self._store, queue, by_queue[queue.tenant, queue.full_name], last_seqs)
            self._findings += [finding] if finding else []

    async def _current_findings(self, shards: ShardBounds) -> tuple[tuple[Finding, ...], int]:
        """The findings, and the number of unlisted ones, without those of queues that were deleted meanwhile: their
        records are deleted in steps, without events."""
        now = await self._bounds() if self._findings else {}
        current = {shard_key(shard) for shard in shards if shard in now and not was_replaced(shards[shard], now[shard])}
        findings = doubt_lost_jobs([each for each in self._findings if each.shard_key in current])
        unlisted = sum(count for key, count in self._unlisted.items() if key in current)
        return tuple(sorted(findings, key=lambda each: each.sort_key)), unlisted


def doubt_lost_jobs(findings: list[Finding]) -> list[Finding]:
    """The findings, without the advice to enqueue a lost job again where the journal of its shard lacks events."""
    incomplete = {each.shard_key for each in findings if each.what in INCOMPLETE}
    return [
        replace(each, hint=MAYBE_FINISHED) if each.what == "lost" and each.shard_key in incomplete else each
        for each in findings
    ]


def _last_read_seq(shard: Shard, bounds: Bounds, ranges: Mapping[ShardKey, EventRange]) -> int:
    """The last event that was read of a journal, or the one before its first if it had none."""
    events = ranges.get(shard_key(shard))
    return bounds.first_seq - 1 if events is None else events.last_seq


def _unchanged_shards(
    before: ShardBounds, after: ShardBounds, last_seqs: Mapping[ShardKey, int], ranges: Mapping[ShardKey, EventRange]
) -> ShardBounds:
    """The shards that exist after everything was read, and were not created again in between."""
    return {
        shard: bounds
        for shard, bounds in after.items()
        if not was_replaced(before.get(shard, bounds), bounds)
        and bounds.last_seq >= last_seqs.get(shard_key(shard), 0)
        and _has_events(bounds, ranges.get(shard_key(shard)))
    }


def _has_events(bounds: Bounds, events: EventRange | None) -> bool:
    """Whether the events that were read are those of the current journal."""
    if events is None:
        return True
    return bounds.last_seq >= events.last_seq and (
        events.first_seq != bounds.first_seq or events.first_at_ms == bounds.first_at_ms
    )
