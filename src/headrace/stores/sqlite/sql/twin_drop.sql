-- Drop a blocked twin.
--
-- args     shard_id, id
DELETE FROM twin WHERE shard_id = ? AND id = ?;
