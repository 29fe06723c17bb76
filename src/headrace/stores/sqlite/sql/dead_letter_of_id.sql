-- The dead letters of an id, by number.
--
-- args     shard_id, id
SELECT body FROM dead_letter WHERE shard_id = ? AND id = ? ORDER BY number;
