-- The ids of blocked jobs behind an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM blocked_job WHERE shard_id = ? AND id > ? ORDER BY id LIMIT ?;
