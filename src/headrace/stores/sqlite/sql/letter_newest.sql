-- The newest letter of an id.
--
-- args     shard_id, id
SELECT body FROM letter WHERE shard_id = ? AND id = ? ORDER BY number DESC LIMIT 1;
