-- Note that a worker was seen.
--
-- args     shard_id, worker, nonce, seen_at_ms
INSERT OR REPLACE INTO worker (shard_id, worker, nonce, seen_at_ms) VALUES (?, ?, ?, ?);
