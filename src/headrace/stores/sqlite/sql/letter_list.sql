-- Letters behind a number, by number.
--
-- args     shard_id, after, limit
SELECT body FROM letter WHERE shard_id = ? AND number > ? ORDER BY number LIMIT ?;
