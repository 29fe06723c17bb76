-- The ready jobs in the order in which they are handed out.
--
-- args     shard_id, limit
SELECT order_key, id, run_at_ms, body, payload FROM job WHERE shard_id = ? AND order_key IS NOT NULL ORDER BY order_key LIMIT ?;
