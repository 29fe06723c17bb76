-- The blocked job of an id.
--
-- args     shard_id, id
SELECT body FROM blocked_job WHERE shard_id = ? AND id = ?;
