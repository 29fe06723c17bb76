-- A worker as some shards remember it.
--
-- args     shard_ids, name
SELECT shard_id, nonce, seen_at_ms FROM worker WHERE shard_id = ANY (%s::bigint[]) AND name = %s;
