-- Dead letters behind a number, by number, locked; what somebody else is at is left to them.
--
-- args     shard_id, after, limit
SELECT body FROM dead_letter WHERE shard_id = %s AND number > %s ORDER BY number LIMIT %s FOR UPDATE SKIP LOCKED;
