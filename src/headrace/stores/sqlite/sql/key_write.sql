-- Remember a used idempotency key.
--
-- args     shard_id, id, key, fingerprint, until_ms
INSERT OR REPLACE INTO idempotency (shard_id, id, key, fingerprint, until_ms) VALUES (?, ?, ?, ?, ?);
