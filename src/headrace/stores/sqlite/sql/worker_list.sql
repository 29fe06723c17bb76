-- The workers of a shard, by name.
--
-- args     shard_id
SELECT worker, nonce, seen_at_ms FROM worker WHERE shard_id = ? ORDER BY worker;
