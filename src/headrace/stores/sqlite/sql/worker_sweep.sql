-- Forget workers that were not seen since.
--
-- args     shard_id, shard_id, before_ms, limit
DELETE FROM worker WHERE shard_id = ? AND worker IN (
  SELECT worker FROM worker WHERE shard_id = ? AND seen_at_ms <= ? ORDER BY worker LIMIT ?);
