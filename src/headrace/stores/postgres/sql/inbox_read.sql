-- The first calls in the inbox of a shard, in order.
--
-- args     shard_id, limit
SELECT
  ticket, now_ms, count, worker, lines, ready, later, blocked, active, done, cancelled, dead, unpinned
FROM inbox WHERE shard_id = %s ORDER BY ticket LIMIT %s;
