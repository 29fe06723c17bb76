-- The workers of a shard, by name.
--
-- args     shard_id
SELECT name, nonce, seen_at_ms FROM worker WHERE shard_id = %s ORDER BY name;
