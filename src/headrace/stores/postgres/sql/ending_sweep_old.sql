-- Drop the oldest unpinned endings as long as each is over; what somebody else is at is left to them.
--
-- args     shard_id, limit, now_ms
-- answers  id and state of each
WITH oldest AS MATERIALIZED (
  SELECT shard_id, id, ending_id, until_ms FROM ending WHERE shard_id = %s AND NOT pinned ORDER BY ending_id LIMIT %s
  FOR UPDATE SKIP LOCKED),
over AS (
  SELECT shard_id, id, max(until_ms) OVER (ORDER BY ending_id) AS latest_ms FROM oldest)
DELETE FROM ending USING over WHERE ending.shard_id = over.shard_id AND ending.id = over.id AND over.latest_ms <= %s
RETURNING ending.id, ending.state;
