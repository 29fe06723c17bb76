-- Drop pinned finished jobs whose time is over, by its end.
--
-- args     shard_id, now_ms, limit
-- answers  the state of each
DELETE FROM finished_job WHERE finished_job_id IN (
  SELECT finished_job_id FROM finished_job WHERE shard_id = ? AND pinned = 1 AND until_ms <= ? ORDER BY until_ms, id LIMIT ?)
RETURNING state;
