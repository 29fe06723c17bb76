-- The order in which keys run out.
CREATE INDEX idempotency_end ON idempotency (shard_id, until_ms, id, key);
