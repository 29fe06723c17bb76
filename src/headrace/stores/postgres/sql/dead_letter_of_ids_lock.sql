-- The dead letters of a batch of ids, by number, locked.
--
-- args     shard_id, ids
SELECT body FROM dead_letter WHERE shard_id = %s AND id = ANY (%s::text[]) ORDER BY number FOR UPDATE;
