-- A dead letter by number.
--
-- args     shard_id, number
SELECT body FROM dead_letter WHERE shard_id = %s AND number = %s;
