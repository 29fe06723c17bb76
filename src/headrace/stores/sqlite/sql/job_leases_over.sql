-- A row for each lease that has run out, as far as a limit.
--
-- args     shard_id, now_ms, limit
SELECT 1 FROM job INDEXED BY job_lease WHERE shard_id = ? AND fence IS NOT NULL AND expires_at_ms <= ? LIMIT ?;
