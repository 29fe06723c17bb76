-- Drop keys whose time is over, by its end.
--
-- args     shard_id, shard_id, now_ms, limit
DELETE FROM idempotency WHERE shard_id = ? AND (id, key) IN (
  SELECT id, key FROM idempotency WHERE shard_id = ? AND until_ms <= ? ORDER BY until_ms, id, key LIMIT ?);
