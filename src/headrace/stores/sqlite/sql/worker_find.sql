-- A worker by name.
--
-- args     shard_id, worker
SELECT nonce, seen_at_ms FROM worker WHERE shard_id = ? AND worker = ?;
