"""Dry run of an ingest: builds the jobs like a write, and counts them instead of sending them."""

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
from headrace.pipeline.flows.ingest.report import IngestReport
from headrace.pipeline.source.discovery import TargetQueues
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.jobs import job_hashes
from headrace.pipeline.source.sink.rejects import Row
from headrace.pipeline.source.sink.result import EXAMPLE_CHARS_MAX
from headrace.pipeline.source.sink.row_to_job import JobFrame
from headrace.pipeline.source.store_access import check_host, connect, this_host
from headrace.stores.contract.store import Store

SAMPLES = 5
"""Jobs in the report."""
_CONFLICT = "another row has the same key and other values; give them keys of their own"
_COLUMNS = "hash bigint, content string, existing boolean, reason string, sentence string, sample string"
_ARROW = pa.schema(
    [
        ("hash", pa.int64()),
        ("content", pa.string()),
        ("existing", pa.bool_()),
        ("reason", pa.string()),
        ("sentence", pa.string()),
        ("sample", pa.string()),
    ]
)


def dry_run_report(rows: DataFrame, options: WriteOptions, name: str) -> IngestReport:
    """The outcomes of rows of job columns, as far as known without a write."""
    describe = _RowDescriber(options, tuple(rows.columns), this_host())
    totals = _totals(rows.mapInArrow(describe, _COLUMNS)).collect()
    jobs = next((total for total in totals if total.reason is None), None)
    refused = {total.reason: total.rows for total in totals if total.reason is not None}
    examples = {total.reason: total.sentence for total in totals if total.reason is not None}
    if jobs is not None and jobs.conflict:
        refused["conflict"], examples["conflict"] = jobs.conflict, _CONFLICT
    return IngestReport(
        name=name,
        dry=True,
        rows=sum(total.rows for total in totals),
        jobs=0 if jobs is None else jobs.jobs,
        folded=0 if jobs is None else jobs.rows - jobs.jobs - jobs.conflict,
        existing=0 if jobs is None else jobs.existing,
        samples=[] if jobs is None else sorted(jobs.samples)[:SAMPLES],
        refused=refused,
        examples=examples,
    )


def _totals(described: DataFrame) -> DataFrame:
    """By reason, null for jobs: rows, jobs, jobs that exist in the store, rows in conflict with another row of their
    key, and some jobs.

    Of the rows with one key, the most frequent values are taken for the job: the order of rows is unknown.
    """
    equal = described.groupBy("reason", "hash", "content").agg(
        F.count(F.lit(1)).alias("rows"),
        F.max("existing").alias("existing"),
        F.min("sentence").alias("sentence"),
        F.collect_set("sample").alias("samples"),
    )
    by_key = equal.groupBy("reason", "hash").agg(
        F.sum("rows").alias("rows"),
        F.max("rows").alias("most"),
        F.max("existing").alias("existing"),
        F.min("sentence").alias("sentence"),
        F.flatten(F.collect_list("samples")).alias("samples"),
    )
    return by_key.groupBy("reason").agg(
        F.sum("rows").alias("rows"),
        F.count("hash").alias("jobs"),
        F.count_if("existing").alias("existing"),
        F.sum(F.col("rows") - F.col("most")).alias("conflict"),
        F.min("sentence").alias("sentence"),
        F.flatten(F.collect_list("samples")).alias("samples"),
    )


class _RowDescriber:
    """Makes the jobs of a task's rows, and describes each. Runs on the executors."""

    def __init__(self, options: WriteOptions, names: tuple[str, ...], planned_on: str) -> None:
        self._options = options
        self._names = names
        self._planned_on = planned_on

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_host(self._options.url, self._planned_on)
        samples = 0
        with connect(self._options.url) as (runner, store):
            queues = TargetQueues(self._options.shards or 1)
            for batch in rows:
                described = runner.run(self._describe(store, queues, batch, SAMPLES - samples))
                samples += len(described["sample"].drop_null())
                yield described

    async def _describe(
        self, store: Store, queues: TargetQueues, batch: pa.RecordBatch, samples_max: int
    ) -> pa.RecordBatch:
        frame = JobFrame(self._options, self._names, batch)
        await queues.learn(store, frame.queue_refs())
        refusals: list[Refused] = []

        def refuse(refused: Refused, row: Callable[[], Row]) -> None:  # noqa: ARG001  (rows are not kept)
            refusals.append(refused)

        jobs = list(frame.jobs(queues, refuse))
        existing = list(chain.from_iterable([await _exist(store, part) for part in batches(jobs)]))
        nulls, samples = [None] * len(refusals), [_sample(job) for job in jobs[:samples_max]]
        columns = {
            "hash": [*np.frombuffer(job_hashes(jobs), dtype=np.int64).tolist(), *nulls],
            "content": [*(job.fingerprint for job in jobs), *nulls],
            "existing": [*existing, *nulls],
            "reason": [*[None] * len(jobs), *(refused.reason for refused in refusals)],
            "sentence": [*[None] * len(jobs), *(cut(str(refused), EXAMPLE_CHARS_MAX) for refused in refusals)],
            "sample": [*samples, *[None] * (len(jobs) - len(samples)), *nulls],
        }
        return pa.RecordBatch.from_pydict(columns, schema=_ARROW)


async def _exist(store: Store, jobs: Sequence[Job]) -> list[bool]:
    """Which of the jobs the store has; none of a queue that does not exist."""
    exists = dict[tuple[object, str], bool]()
    for queue in dict.fromkeys(job.queue for job in jobs):
        ids = list(dict.fromkeys(job.id for job in jobs if job.queue == queue))
        records = await store.reads.find(queue, ids)
        exists |= {(queue, id): record is not None for id, record in zip(ids, records, strict=True)}
    return [exists[job.queue, job.id] for job in jobs]


def _sample(job: Job) -> str:
    fields = {
        "queue": job.queue.full_name,
        "tenant": job.queue.tenant,
        "kind": job.kind,
        "key": job.idempotency_key,
        "run_at": None if job.run_at_ms is None else instant_text(job.run_at_ms),
        "priority": job.policy.priority,
        "tag": job.tag,
        "payload": msgspec.Raw(job.payload),
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None}).decode()
