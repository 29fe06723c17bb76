-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, shard_id, limit
DELETE FROM consumer WHERE shard_id = ? AND name IN (SELECT name FROM consumer WHERE shard_id = ? LIMIT ?);
