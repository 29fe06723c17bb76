-- The oldest dead letters of a shard, without what is in them.
--
-- args     shard_id, limit
SELECT number, until_ms FROM dead_letter WHERE shard_id = %s ORDER BY number LIMIT %s;
