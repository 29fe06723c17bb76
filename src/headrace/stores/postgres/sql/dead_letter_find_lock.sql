-- A dead letter by number, locked.
--
-- args     shard_id, number
SELECT body FROM dead_letter WHERE shard_id = %s AND number = %s FOR UPDATE;
