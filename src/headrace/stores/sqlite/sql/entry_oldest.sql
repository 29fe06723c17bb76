-- The oldest entry of a shard, without its lines.
--
-- args     lowest key, highest key
SELECT entry_id, at_ms, length(lines)
FROM entry WHERE entry_id BETWEEN ? AND ? ORDER BY entry_id LIMIT 1;
