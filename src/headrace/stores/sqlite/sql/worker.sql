-- name: worker_find
-- A worker by name.
--
-- args     shard_id, worker
SELECT nonce, seen_at_ms FROM worker WHERE shard_id = ? AND worker = ?;

-- name: worker_list
-- The workers of a shard, by name.
--
-- args     shard_id
SELECT worker, nonce, seen_at_ms FROM worker WHERE shard_id = ? ORDER BY worker;

-- name: worker_write
-- Write a worker and when it was seen.
--
-- args     shard_id, worker, nonce, seen_at_ms
INSERT OR REPLACE INTO worker (shard_id, worker, nonce, seen_at_ms) VALUES (?, ?, ?, ?);

-- name: worker_sweep
-- Drop workers that were last seen before an instant.
--
-- args     shard_id, shard_id, before_ms, limit
DELETE FROM worker WHERE shard_id = ? AND worker IN (
  SELECT worker FROM worker WHERE shard_id = ? AND seen_at_ms <= ? ORDER BY worker LIMIT ?);

-- name: worker_erase
-- Erase the workers of a dropped shard, up to a limit.
--
-- args     shard_id, shard_id, limit
DELETE FROM worker WHERE shard_id = ? AND worker IN (SELECT worker FROM worker WHERE shard_id = ? LIMIT ?);
