-- Drop the endings of a batch of ids.
--
-- args     shard_id, ids as a JSON array
-- answers  state and pinned of each
DELETE FROM ending WHERE shard_id = ? AND id IN (SELECT value FROM json_each(?)) RETURNING state, pinned;
