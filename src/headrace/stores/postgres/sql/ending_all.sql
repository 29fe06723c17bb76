-- Every ending of a shard.
--
-- args     shard_id
SELECT id, state, pinned, until_ms, body, result FROM ending WHERE shard_id = %s;
