-- Dead letters behind a number, by number.
--
-- args     shard_id, after, limit
SELECT body FROM dead_letter WHERE shard_id = %s AND number > %s ORDER BY number LIMIT %s;
