-- Drop the finished jobs of a batch of ids.
--
-- args     shard_id, ids as a JSON array
-- answers  state and pinned of each
DELETE FROM finished_job WHERE shard_id = ? AND id IN (SELECT value FROM json_each(?)) RETURNING state, pinned;
