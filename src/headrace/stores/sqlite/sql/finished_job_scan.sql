-- Finished jobs behind an id, by id.
--
-- args     shard_id, after id, limit
SELECT id, state, pinned, until_ms, body, result FROM finished_job WHERE shard_id = ? AND id > ? ORDER BY id LIMIT ?;
