-- Every blocked job of a shard.
--
-- args     shard_id
SELECT body FROM blocked_job WHERE shard_id = ?;
