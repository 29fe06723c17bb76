-- Write a worker that is locked.
--
-- args     nonce, seen_at_ms, shard_id, name
UPDATE worker SET nonce = %s, seen_at_ms = %s WHERE shard_id = %s AND name = %s;
