-- Every finished job of a shard.
--
-- args     shard_id
SELECT id, state, pinned, until_ms, body, result FROM finished_job WHERE shard_id = %s;
