-- Forget a reader.
--
-- args     shard_id, name
DELETE FROM consumer WHERE shard_id = ? AND name = ?;
