-- The ids of blocked jobs behind an id that no active job blocks, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM blocked_job WHERE shard_id = ? AND id > ? AND NOT EXISTS (
  SELECT 1 FROM job WHERE job.shard_id = blocked_job.shard_id AND job.id = blocked_job.id AND job.fence IS NOT NULL)
ORDER BY id LIMIT ?;
