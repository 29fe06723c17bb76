-- Drop keys that have run out; what somebody else is at is left to them.
--
-- args     shard_id, now_ms, limit
WITH over AS MATERIALIZED (
  SELECT shard_id, id, key FROM key WHERE shard_id = %s AND until_ms <= %s ORDER BY until_ms LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM key USING over WHERE key.shard_id = over.shard_id AND key.id = over.id AND key.key = over.key;
