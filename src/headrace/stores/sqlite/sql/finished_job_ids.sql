-- The ids of finished jobs in a state behind an id, by id.
--
-- args     shard_id, after id, state, limit
SELECT id FROM finished_job WHERE shard_id = ? AND id > ? AND state = ? ORDER BY id LIMIT ?;
