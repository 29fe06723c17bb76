-- Statements on used idempotency keys.

-- name: key_lock
-- Lock and read used keys of a batch of ids, in the order of the arguments, which is that of id and key.
--
-- args     shard_id, arrays: id, key
SELECT found.*
FROM (SELECT %s::bigint AS shard_id) AS of, unnest(%s::text[], %s::text[]) AS wanted (id, key)
CROSS JOIN LATERAL (
  SELECT id, key, fingerprint, until_ms FROM key
  WHERE key.shard_id = of.shard_id AND key.id = wanted.id AND key.key = wanted.key FOR UPDATE
) AS found;

-- name: key_insert
-- Insert keys; a known one is a unique violation.
--
-- args     shard_id, arrays: id, key, fingerprint, until_ms
INSERT INTO key (shard_id, id, key, fingerprint, until_ms)
SELECT %s::bigint, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]);

-- name: key_update
-- Write keys that are locked.
--
-- args     shard_id, arrays: id, key, fingerprint, until_ms
UPDATE key SET fingerprint = new.fingerprint, until_ms = new.until_ms
FROM (SELECT %s::bigint AS shard_id) AS of,
  unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) AS new (id, key, fingerprint, until_ms)
WHERE key.shard_id = of.shard_id AND key.id = new.id AND key.key = new.key;

-- name: key_sweep
-- Drop keys that have run out; rows that another transaction has locked are skipped.
--
-- args     shard_id, now_ms, limit
WITH over AS MATERIALIZED (
  SELECT shard_id, id, key FROM key WHERE shard_id = %s AND until_ms <= %s ORDER BY until_ms LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM key USING over WHERE key.shard_id = over.shard_id AND key.id = over.id AND key.key = over.key;

-- name: key_erase
-- Erase keys of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM key USING (SELECT shard_id, id, key FROM key WHERE shard_id = %s LIMIT %s) AS few
WHERE key.shard_id = few.shard_id AND key.id = few.id AND key.key = few.key;
