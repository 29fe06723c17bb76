-- name: consumer_find
-- A consumer of the journal by name.
--
-- args     shard_id, name
SELECT name, seq, hold, seen_at_ms FROM consumer WHERE shard_id = ? AND name = ?;

-- name: consumer_list
-- The consumers of a journal, by name.
--
-- args     shard_id
SELECT name, seq, hold, seen_at_ms FROM consumer WHERE shard_id = ? ORDER BY name;

-- name: consumer_write
-- Write a consumer and its offset.
--
-- args     shard_id, name, seq, hold, seen_at_ms
INSERT OR REPLACE INTO consumer (shard_id, name, seq, hold, seen_at_ms) VALUES (?, ?, ?, ?, ?);

-- name: consumer_drop
-- Drop a consumer.
--
-- args     shard_id, name
DELETE FROM consumer WHERE shard_id = ? AND name = ?;

-- name: consumer_erase
-- Erase the consumers of a dropped shard, up to a limit.
--
-- args     shard_id, shard_id, limit
DELETE FROM consumer WHERE shard_id = ? AND name IN (SELECT name FROM consumer WHERE shard_id = ? LIMIT ?);
