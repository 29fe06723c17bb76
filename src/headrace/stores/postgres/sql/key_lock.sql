-- Lock and read used keys of a batch of ids, in the order given, which is that of id and key.
--
-- args     shard_id, arrays: id, key
SELECT found.*
FROM (SELECT %s::bigint AS shard_id) AS of, unnest(%s::text[], %s::text[]) AS wanted (id, key)
CROSS JOIN LATERAL (
  SELECT id, key, fingerprint, until_ms FROM key
  WHERE key.shard_id = of.shard_id AND key.id = wanted.id AND key.key = wanted.key FOR UPDATE
) AS found;
