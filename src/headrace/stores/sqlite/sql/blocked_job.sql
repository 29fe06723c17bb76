-- name: blocked_job_find
-- The blocked job of an id.
--
-- args     shard_id, id
SELECT body FROM blocked_job WHERE shard_id = ? AND id = ?;

-- name: blocked_job_write
-- Write a blocked job.
--
-- args     shard_id, id, body
INSERT OR REPLACE INTO blocked_job (shard_id, id, body) VALUES (?, ?, ?);

-- name: blocked_job_drop
-- Drop a blocked job.
--
-- args     shard_id, id
DELETE FROM blocked_job WHERE shard_id = ? AND id = ?;

-- name: blocked_job_ids
-- The ids of blocked jobs behind an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM blocked_job WHERE shard_id = ? AND id > ? ORDER BY id LIMIT ?;

-- name: blocked_job_stranded
-- The ids of blocked jobs behind an id that no active job blocks, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM blocked_job WHERE shard_id = ? AND id > ? AND NOT EXISTS (
  SELECT 1 FROM job WHERE job.shard_id = blocked_job.shard_id AND job.id = blocked_job.id AND job.fence IS NOT NULL)
ORDER BY id LIMIT ?;

-- name: blocked_job_all
-- Every blocked job of a shard.
--
-- args     shard_id
SELECT body FROM blocked_job WHERE shard_id = ?;
