-- The first later job: its time, and since when it is due.
--
-- args     shard_id
SELECT run_at_ms, max(run_at_ms, enqueued_at_ms)
FROM job WHERE shard_id = ? AND place IS NULL AND fence IS NULL ORDER BY run_at_ms, id LIMIT 1;
