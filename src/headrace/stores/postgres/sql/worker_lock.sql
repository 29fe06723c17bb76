-- A worker as some shards remember it, locked: a claim that is sent again waits here for the first one.
--
-- args     shard_ids, name
SELECT shard_id, nonce, seen_at_ms FROM worker WHERE shard_id = ANY (%s::bigint[]) AND name = %s
ORDER BY shard_id FOR UPDATE;
