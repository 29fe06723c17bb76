-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, shard_id, limit
DELETE FROM idempotency WHERE shard_id = ? AND (id, key) IN (
  SELECT id, key FROM idempotency WHERE shard_id = ? LIMIT ?);
