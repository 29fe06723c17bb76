-- Drop a dead letter.
--
-- args     shard_id, number
DELETE FROM dead_letter WHERE shard_id = ? AND number = ?;
