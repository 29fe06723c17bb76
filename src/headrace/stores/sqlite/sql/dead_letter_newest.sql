-- The newest dead letter of an id.
--
-- args     shard_id, id
SELECT body FROM dead_letter WHERE shard_id = ? AND id = ? ORDER BY number DESC LIMIT 1;
