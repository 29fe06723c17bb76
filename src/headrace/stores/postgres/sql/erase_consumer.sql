-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM consumer USING (SELECT shard_id, name FROM consumer WHERE shard_id = %s LIMIT %s) AS few
WHERE consumer.shard_id = few.shard_id AND consumer.name = few.name;
