-- The first ready job within order keys of one priority.
--
-- args     shard_id, lowest order key, highest order key
SELECT run_at_ms, body FROM job WHERE shard_id = ? AND order_key BETWEEN ? AND ? ORDER BY order_key LIMIT 1;
