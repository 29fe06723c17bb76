-- The first ready job within places of one priority: since when it is due.
--
-- args     shard_id, lowest place, highest place
SELECT max(run_at_ms, enqueued_at_ms) FROM job WHERE shard_id = ? AND place BETWEEN ? AND ? ORDER BY place LIMIT 1;
