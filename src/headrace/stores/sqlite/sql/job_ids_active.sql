-- Walks the leases rather than all jobs: there are few active ones among many that wait.
--
-- args     shard_id, after id, limit
SELECT id FROM job INDEXED BY job_lease WHERE shard_id = ? AND fence IS NOT NULL AND id > ? ORDER BY id LIMIT ?;
