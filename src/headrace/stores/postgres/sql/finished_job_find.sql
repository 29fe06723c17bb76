-- The finished job of an id.
--
-- args     shard_id, id
SELECT id, state, pinned, until_ms, body, result FROM finished_job WHERE shard_id = %s AND id = %s;
