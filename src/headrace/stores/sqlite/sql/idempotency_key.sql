-- name: idempotency_key_find
-- A used idempotency key.
--
-- args     shard_id, id, key
SELECT fingerprint, until_ms FROM idempotency_key WHERE shard_id = ? AND id = ? AND key = ?;

-- name: idempotency_key_write
-- Write a used idempotency key.
--
-- args     shard_id, id, key, fingerprint, until_ms
INSERT OR REPLACE INTO idempotency_key (shard_id, id, key, fingerprint, until_ms) VALUES (?, ?, ?, ?, ?);

-- name: idempotency_key_sweep
-- Drop expired keys, the earliest first.
--
-- args     shard_id, shard_id, now_ms, limit
DELETE FROM idempotency_key WHERE shard_id = ? AND (id, key) IN (
  SELECT id, key FROM idempotency_key WHERE shard_id = ? AND until_ms <= ? ORDER BY until_ms, id, key LIMIT ?);

-- name: idempotency_key_erase
-- Erase the keys of a dropped shard, up to a limit.
--
-- args     shard_id, shard_id, limit
DELETE FROM idempotency_key WHERE shard_id = ? AND (id, key) IN (
  SELECT id, key FROM idempotency_key WHERE shard_id = ? LIMIT ?);
