-- Drop pinned endings whose time is over, by its end.
--
-- args     shard_id, now_ms, limit
-- answers  the state of each
DELETE FROM ending WHERE ending_id IN (
  SELECT ending_id FROM ending WHERE shard_id = ? AND pinned = 1 AND until_ms <= ? ORDER BY until_ms, id LIMIT ?)
RETURNING state;
