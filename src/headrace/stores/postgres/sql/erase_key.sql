-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM key USING (SELECT shard_id, id, key FROM key WHERE shard_id = %s LIMIT %s) AS few
WHERE key.shard_id = few.shard_id AND key.id = few.id AND key.key = few.key;
