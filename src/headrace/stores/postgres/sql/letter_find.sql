-- A letter by number.
--
-- args     shard_id, number
SELECT body FROM letter WHERE shard_id = %s AND number = %s;
