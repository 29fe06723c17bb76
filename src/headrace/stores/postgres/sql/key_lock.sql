-- Lock and read used keys of a batch of ids, by id and key.
--
-- args     shard_id, arrays: id, key
SELECT key.id, key.key, key.fingerprint, key.until_ms
FROM (SELECT %s::bigint AS shard_id) AS of, unnest(%s::text[], %s::text[]) AS wanted (id, key)
JOIN key USING (id, key)
WHERE key.shard_id = of.shard_id
ORDER BY key.id, key.key FOR UPDATE OF key;
