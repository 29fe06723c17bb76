"""Rows of records in Arrow: jobs that wait or run, their blocked jobs, finished jobs, dead letters."""

from collections.abc import Sequence

import pyarrow as pa

from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import Record, State
from headrace.model.names import Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import Found
from headrace.pipeline.source.arrow import build_batch, instants, texts
from headrace.pipeline.source.schema import Table

Values = dict[str, object]


class RecordRows:
    """Builds rows from the records of one shard, with the columns of a table; missing values are null."""

    def __init__(self, table: Table, shard: Shard, config: QueueConfig) -> None:
        self._table = table
        self._config = config
        self._shard: Values = {"tenant": shard.queue.tenant, "queue": shard.queue.full_name, "shard": shard.index}

    def of_alive(self, found: Sequence[Found], as_of: Values) -> pa.RecordBatch:
        """Jobs that wait or run."""
        return self._batch(
            len(found),
            self._of_records([each.record for each in found if each.record is not None]),
            as_of,
            state=lambda: [each.state for each in found],
            fence=lambda: [each.fence for each in found],
            worker=lambda: [each.worker for each in found],
            lease_expires_at=lambda: instants([each.lease_expires_at_ms for each in found]),
            cancel_asked=lambda: [each.cancel_asked for each in found],
        )

    def of_blocked_jobs(self, blocked_jobs: Sequence[Record], as_of: Values) -> pa.RecordBatch:
        """Jobs that wait behind an active job with their id."""
        return self._batch(
            len(blocked_jobs), self._of_records(blocked_jobs), as_of, state=State.BLOCKED.value, cancel_asked=False
        )

    def of_finished_jobs(self, finished_jobs: Sequence[FinishedJob], as_of: Values) -> pa.RecordBatch:
        """Jobs that are done or cancelled."""
        return self._batch(
            len(finished_jobs),
            {},
            as_of,
            id=lambda: [each.id for each in finished_jobs],
            state=lambda: [each.state for each in finished_jobs],
            outcome=lambda: [each.state for each in finished_jobs],
            kind=lambda: [each.kind for each in finished_jobs],
            tag=lambda: [each.tag for each in finished_jobs],
            attempts=lambda: [each.attempts for each in finished_jobs],
            stalls=lambda: [each.stalls for each in finished_jobs],
            enqueued_at=lambda: instants([each.enqueued_at_ms for each in finished_jobs]),
            ended_at=lambda: instants([each.ended_at_ms for each in finished_jobs]),
            kept=True,
            result=lambda: texts([each.result for each in finished_jobs]),
        )

    def of_dead_letters(self, dead_letters: Sequence[DeadLetter], as_of: Values) -> pa.RecordBatch:
        """Dead jobs with their errors."""
        died = lambda: instants([each.died_at_ms for each in dead_letters])  # noqa: E731  (two tables name it differently)
        return self._batch(
            len(dead_letters),
            self._of_records([each.record for each in dead_letters]),
            as_of,
            state=State.DEAD.value,
            reason=lambda: [each.reason for each in dead_letters],
            dead_letter=lambda: [each.key.number for each in dead_letters],
            error_class=lambda: [each.error.cls for each in dead_letters],
            error_message=lambda: [each.error.message for each in dead_letters],
            ended_at=died,
            died_at=died,
            kept_until=lambda: instants([each.until_ms for each in dead_letters]),
        )

    def _batch(self, count: int, records: Values, as_of: Values, **values: object) -> pa.RecordBatch:
        return build_batch(self._table, count, self._shard | records | as_of | values)

    def _of_records(self, records: Sequence[Record]) -> Values:
        priority_of = self._config.priority_of
        errors = [each.error for each in records]
        return {
            "id": lambda: [each.id for each in records],
            "kind": lambda: [each.kind for each in records],
            "tag": lambda: [each.tag for each in records],
            "priority": lambda: [priority_of(each.policy) for each in records],
            "attempts": lambda: [each.attempts for each in records],
            "stalls": lambda: [each.stalls for each in records],
            "enqueued_at": lambda: instants([each.enqueued_at_ms for each in records]),
            "run_at": lambda: instants([each.run_at_ms for each in records]),
            "error_class": lambda: [None if each is None else each.cls for each in errors],
            "error_message": lambda: [None if each is None else each.message for each in errors],
            "payload_bytes": lambda: [len(each.payload) for each in records],
            "payload": lambda: texts([each.payload for each in records]),
            "headers": lambda: [each.headers for each in records],
        }
