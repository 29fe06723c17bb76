-- The first later job.
--
-- args     shard_id
SELECT run_at_ms, body FROM job WHERE shard_id = ? AND order_key IS NULL AND fence IS NULL ORDER BY run_at_ms, id LIMIT 1;
