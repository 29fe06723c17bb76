-- The ids of twins behind an id that no active job blocks, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM twin WHERE shard_id = ? AND id > ? AND NOT EXISTS (
  SELECT 1 FROM job WHERE job.shard_id = twin.shard_id AND job.id = twin.id AND job.fence IS NOT NULL)
ORDER BY id LIMIT ?;
