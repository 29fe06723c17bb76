-- The first ready job within places of one priority.
--
-- args     shard_id, lowest place, highest place
SELECT run_at_ms, body FROM job WHERE shard_id = ? AND place BETWEEN ? AND ? ORDER BY place LIMIT 1;
