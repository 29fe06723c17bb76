-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM worker USING (SELECT shard_id, name FROM worker WHERE shard_id = %s LIMIT %s) AS few
WHERE worker.shard_id = few.shard_id AND worker.name = few.name;
