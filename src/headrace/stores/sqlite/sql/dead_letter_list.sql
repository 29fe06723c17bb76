-- Dead letters behind a number, by number.
--
-- args     shard_id, after, limit
SELECT body FROM dead_letter WHERE shard_id = ? AND number > ? ORDER BY number LIMIT ?;
