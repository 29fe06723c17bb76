-- The blocked twin of an id.
--
-- args     shard_id, id
SELECT body FROM twin WHERE shard_id = ? AND id = ?;
