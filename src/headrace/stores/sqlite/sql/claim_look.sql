-- The ready jobs in the order in which they are handed out.
--
-- args     shard_id, limit
SELECT place, id, run_at_ms, body, payload FROM job WHERE shard_id = ? AND place IS NOT NULL ORDER BY place LIMIT ?;
