-- Drop a letter.
--
-- args     shard_id, number
DELETE FROM letter WHERE shard_id = ? AND number = ?;
