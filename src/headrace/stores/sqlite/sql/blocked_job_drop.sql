-- Drop a blocked job.
--
-- args     shard_id, id
DELETE FROM blocked_job WHERE shard_id = ? AND id = ?;
