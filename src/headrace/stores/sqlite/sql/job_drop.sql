-- Drop a job.
--
-- args     shard_id, id
DELETE FROM job WHERE shard_id = ? AND id = ?;
