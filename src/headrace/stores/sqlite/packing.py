"""What SQLite takes as arguments: a job as columns, and a batch of ids."""

import msgspec

from headrace.stores.engine.row_codec import lease_columns, pack_body
from headrace.stores.shared.lookup import Row


def json_array(ids: list[str]) -> str:
    """Ids as one argument."""
    return msgspec.json.encode(ids).decode()


def json_keys(keys: list[int]) -> str:
    """Keys of rows as one argument."""
    return msgspec.json.encode(keys).decode()


def columns_of(row: Row) -> tuple[object, ...]:
    """The columns of a job, in the order of job_load."""
    record = row.record
    lease = (None, None, None, None) if row.delivery is None else lease_columns(row.delivery)
    body = pack_body(record, record.enqueued_at_ms)
    return (record.id, record.order_key, record.run_at_ms, *lease, body, record.payload)
