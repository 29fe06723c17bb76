-- The ids of blocked twins behind an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM twin WHERE shard_id = ? AND id > ? ORDER BY id LIMIT ?;
