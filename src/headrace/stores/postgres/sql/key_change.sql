-- Write keys that are locked.
--
-- args     shard_id, arrays: id, key, fingerprint, until_ms
UPDATE key SET fingerprint = new.fingerprint, until_ms = new.until_ms
FROM (SELECT %s::bigint AS shard_id) AS of,
  unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) AS new (id, key, fingerprint, until_ms)
WHERE key.shard_id = of.shard_id AND key.id = new.id AND key.key = new.key;
