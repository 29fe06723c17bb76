-- Statements on consumers of journals.

-- name: consumer_find
-- A consumer of a journal.
--
-- args     shard_id, name
SELECT name, seq, hold, seen_at_ms FROM consumer WHERE shard_id = %s AND name = %s;

-- name: consumer_list
-- The consumers of a journal, by name.
--
-- args     shard_id
SELECT name, seq, hold, seen_at_ms FROM consumer WHERE shard_id = %s ORDER BY name;

-- name: consumer_write
-- Insert or update a consumer.
--
-- args     shard_id, name, seq, hold, seen_at_ms
INSERT INTO consumer (shard_id, name, seq, hold, seen_at_ms) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (shard_id, name) DO UPDATE SET seq = excluded.seq, hold = excluded.hold, seen_at_ms = excluded.seen_at_ms;

-- name: consumer_drop
-- Forget a consumer.
--
-- args     shard_id, name
DELETE FROM consumer WHERE shard_id = %s AND name = %s;

-- name: consumer_erase
-- Erase consumers of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM consumer USING (SELECT shard_id, name FROM consumer WHERE shard_id = %s LIMIT %s) AS few
WHERE consumer.shard_id = few.shard_id AND consumer.name = few.name;
