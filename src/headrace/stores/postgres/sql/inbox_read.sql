-- The first calls in the inbox of a shard, in order, without their lines: only how many bytes these take.
--
-- args     shard_id, limit
SELECT
  ticket, now_ms, count, octet_length(lines), ready, later, blocked, active, done, cancelled, dead, unpinned
FROM inbox WHERE shard_id = %s ORDER BY ticket LIMIT %s;
