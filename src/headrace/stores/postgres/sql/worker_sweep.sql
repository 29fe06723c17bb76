-- Drop workers that were not seen for long; what somebody else is at is left to them.
--
-- args     shard_id, before ms, limit
WITH over AS MATERIALIZED (
  SELECT shard_id, name FROM worker WHERE shard_id = %s AND seen_at_ms <= %s ORDER BY name LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM worker USING over WHERE worker.shard_id = over.shard_id AND worker.name = over.name;
