-- Every dead letter of a shard, by number.
--
-- args     shard_id
SELECT body FROM dead_letter WHERE shard_id = %s ORDER BY number;
