-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
-- answers  state and pinned of each
DELETE FROM ending USING (SELECT shard_id, id FROM ending WHERE shard_id = %s LIMIT %s) AS few
WHERE ending.shard_id = few.shard_id AND ending.id = few.id
RETURNING ending.state, ending.pinned;
