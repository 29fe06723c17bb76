-- The ending of an id.
--
-- args     shard_id, id
SELECT id, state, pinned, until_ms, body, result FROM ending WHERE shard_id = %s AND id = %s;
