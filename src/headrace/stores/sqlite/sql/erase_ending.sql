-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
-- answers  state and pinned of each
DELETE FROM ending WHERE ending_id IN (SELECT ending_id FROM ending WHERE shard_id = ? LIMIT ?) RETURNING state, pinned;
