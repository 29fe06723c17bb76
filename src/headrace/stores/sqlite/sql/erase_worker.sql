-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, shard_id, limit
DELETE FROM worker WHERE shard_id = ? AND worker IN (SELECT worker FROM worker WHERE shard_id = ? LIMIT ?);
