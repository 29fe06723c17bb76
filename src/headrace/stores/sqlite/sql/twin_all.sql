-- Every blocked twin of a shard.
--
-- args     shard_id
SELECT body FROM twin WHERE shard_id = ?;
