-- Drop pinned endings whose time is over, by its end; what somebody else is at is left to them.
--
-- args     shard_id, now_ms, limit
-- answers  id and state of each
WITH over AS MATERIALIZED (
  SELECT shard_id, id FROM ending WHERE shard_id = %s AND pinned AND until_ms <= %s ORDER BY until_ms, id LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM ending USING over WHERE ending.shard_id = over.shard_id AND ending.id = over.id
RETURNING ending.id, ending.state;
