-- Drop the oldest unpinned endings; what somebody else is at is left to them.
--
-- args     shard_id, limit
-- answers  id and state of each
WITH over AS MATERIALIZED (
  SELECT shard_id, id FROM ending WHERE shard_id = %s AND NOT pinned ORDER BY ending_id LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM ending USING over WHERE ending.shard_id = over.shard_id AND ending.id = over.id
RETURNING ending.id, ending.state;
