-- Drop the oldest unpinned endings of a shard.
--
-- args     lowest key, highest key, count
-- answers  the state of each
DELETE FROM ending WHERE ending_id IN (
  SELECT ending_id FROM ending WHERE ending_id BETWEEN ? AND ? ORDER BY ending_id LIMIT ?) RETURNING state;
