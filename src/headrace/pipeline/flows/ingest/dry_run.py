"""A dry run: the jobs are made as a write makes them, and counted instead of sent."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.client.batching import batches
from headrace.model.errors import Refused
from headrace.model.job import Job
from headrace.model.times import instant_text
from headrace.model.validate import cut
from headrace.pipeline.flows.ingest.counts import Ingested
from headrace.pipeline.flows.ingest.planned import PlannedIngest
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.jobs import job_hashes
from headrace.pipeline.source.sink.queues import TargetQueues
from headrace.pipeline.source.sink.rejects import Row
from headrace.pipeline.source.sink.result import EXAMPLE_CHARS_MAX
from headrace.pipeline.source.sink.row_to_job import JobFrame
from headrace.pipeline.source.store_access import check_host, connect, this_host
from headrace.stores.contract.store import Store

SAMPLES = 5
"""Jobs that are shown."""
_CONFLICT = "another row has the same key and says something else; give them keys of their own"
_TOLD = "hash bigint, content string, known boolean, reason string, sentence string, sample string"
_ARROW = pa.schema(
    [
        ("hash", pa.int64()),
        ("content", pa.string()),
        ("known", pa.bool_()),
        ("reason", pa.string()),
        ("sentence", pa.string()),
        ("sample", pa.string()),
    ]
)


def look_at(planned: PlannedIngest, name: str) -> Ingested:
    """What would become of the rows, as far as that can be told without writing them."""
    looker = _Looker(planned.options, tuple(planned.frame.columns), this_host())
    told = _added_up(planned.frame.mapInArrow(looker, _TOLD)).collect()
    good = next((row for row in told if row.reason is None), None)
    refused = {row.reason: row.rows for row in told if row.reason is not None}
    examples = {row.reason: row.sentence for row in told if row.reason is not None}
    if good is not None and good.conflict:
        refused["conflict"], examples["conflict"] = good.conflict, _CONFLICT
    return Ingested(
        name=name,
        dry=True,
        rows=sum(row.rows for row in told),
        jobs=0 if good is None else good.jobs,
        folded=0 if good is None else good.rows - good.jobs - good.conflict,
        known=0 if good is None else good.known,
        samples=[] if good is None else sorted(good.samples)[:SAMPLES],
        refused=refused,
        examples=examples,
    )


def _added_up(told: DataFrame) -> DataFrame:
    """By reason, null for jobs: how many rows, how many jobs, how many of these the store has, how many rows have the
    key of another and say something else, and a few jobs.

    Of rows with one key, those are jobs or folded that say what most of them say: which comes first is not known.
    """
    alike = told.groupBy("reason", "hash", "content").agg(
        F.count(F.lit(1)).alias("rows"),
        F.max("known").alias("known"),
        F.min("sentence").alias("sentence"),
        F.collect_set("sample").alias("samples"),
    )
    keyed = alike.groupBy("reason", "hash").agg(
        F.sum("rows").alias("rows"),
        F.max("rows").alias("most"),
        F.max("known").alias("known"),
        F.min("sentence").alias("sentence"),
        F.flatten(F.collect_list("samples")).alias("samples"),
    )
    return keyed.groupBy("reason").agg(
        F.sum("rows").alias("rows"),
        F.count("hash").alias("jobs"),
        F.count_if("known").alias("known"),
        F.sum(F.col("rows") - F.col("most")).alias("conflict"),
        F.min("sentence").alias("sentence"),
        F.flatten(F.collect_list("samples")).alias("samples"),
    )


class _Looker:
    """Makes the jobs of a task's rows, and tells what each of them is. Goes to the executors."""

    def __init__(self, options: WriteOptions, names: tuple[str, ...], planned_on: str) -> None:
        self._options = options
        self._names = names
        self._planned_on = planned_on

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_host(self._options.url, self._planned_on)
        shown = 0
        with connect(self._options.url) as (runner, store):
            queues = TargetQueues(self._options.shards or 1)
            for batch in rows:
                told = runner.run(self._look(store, queues, batch, SAMPLES - shown))
                shown += len(told["sample"].drop_null())
                yield told

    async def _look(self, store: Store, queues: TargetQueues, batch: pa.RecordBatch, samples: int) -> pa.RecordBatch:
        made = JobFrame(self._options, self._names, batch)
        await queues.learn(store, made.queue_refs())
        refusals: list[Refused] = []

        def refuse(refused: Refused, row: Callable[[], Row]) -> None:  # noqa: ARG001  (nobody keeps it)
            refusals.append(refused)

        jobs = list(made.jobs(queues, refuse))
        known = list(chain.from_iterable([await _known(store, part) for part in batches(jobs)]))
        nothing, shown = [None] * len(refusals), [_sample(job) for job in jobs[:samples]]
        columns = {
            "hash": [*np.frombuffer(job_hashes(jobs), dtype=np.int64).tolist(), *nothing],
            "content": [*(job.fingerprint for job in jobs), *nothing],
            "known": [*known, *nothing],
            "reason": [*[None] * len(jobs), *(refused.reason for refused in refusals)],
            "sentence": [*[None] * len(jobs), *(cut(str(refused), EXAMPLE_CHARS_MAX) for refused in refusals)],
            "sample": [*shown, *[None] * (len(jobs) - len(shown)), *nothing],
        }
        return pa.RecordBatch.from_pydict(columns, schema=_ARROW)


async def _known(store: Store, jobs: Sequence[Job]) -> list[bool]:
    """Which of the jobs the store has; a queue that is not there has none."""
    found = dict[tuple[object, str], bool]()
    for queue in dict.fromkeys(job.queue for job in jobs):
        ids = list(dict.fromkeys(job.id for job in jobs if job.queue == queue))
        answers = await store.reads.find(queue, ids)
        found |= {(queue, id): answer is not None for id, answer in zip(ids, answers, strict=True)}
    return [found[job.queue, job.id] for job in jobs]


def _sample(job: Job) -> str:
    """A job for a person to look at."""
    told = {
        "queue": job.queue.full_name,
        "tenant": job.queue.tenant,
        "kind": job.kind,
        "key": job.idempotency_key,
        "run_at": None if job.run_at_ms is None else instant_text(job.run_at_ms),
        "priority": job.policy.priority,
        "tag": job.tag,
        "payload": msgspec.Raw(job.payload),
    }
    return msgspec.json.encode({name: value for name, value in told.items() if value is not None}).decode()
