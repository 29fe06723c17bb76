-- The order in which later jobs become ready.
CREATE INDEX job_later ON job (shard_id, run_at_ms, id) WHERE order_key IS NULL AND fence IS NULL;
