-- args     shard_id
SELECT worker, nonce, seen_at_ms FROM worker WHERE shard_id = ? ORDER BY worker;
