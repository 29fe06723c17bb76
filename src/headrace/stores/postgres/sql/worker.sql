-- Statements on workers, as shards remember them.

-- name: worker_find
-- A worker as some shards remember it.
--
-- args     shard_ids, name
SELECT shard_id, nonce, seen_at_ms FROM worker WHERE shard_id = ANY (%s::bigint[]) AND name = %s;

-- name: worker_lock
-- A worker as some shards remember it, locked: a claim that is sent again waits here for the first one.
--
-- args     shard_ids, name
SELECT shard_id, nonce, seen_at_ms FROM worker WHERE shard_id = ANY (%s::bigint[]) AND name = %s
ORDER BY shard_id FOR UPDATE;

-- name: worker_list
-- The workers of a shard, by name.
--
-- args     shard_id
SELECT name, nonce, seen_at_ms FROM worker WHERE shard_id = %s ORDER BY name;

-- name: worker_insert
-- Insert a worker; a known one is a unique violation.
--
-- args     nonce, seen_at_ms, shard_id, name
INSERT INTO worker (nonce, seen_at_ms, shard_id, name) VALUES (%s, %s, %s, %s);

-- name: worker_update
-- Write a locked worker.
--
-- args     nonce, seen_at_ms, shard_id, name
UPDATE worker SET nonce = %s, seen_at_ms = %s WHERE shard_id = %s AND name = %s;

-- name: worker_sweep
-- Drop workers that were not seen for long; rows that another transaction has locked are skipped.
--
-- args     shard_id, before ms, limit
WITH over AS MATERIALIZED (
  SELECT shard_id, name FROM worker WHERE shard_id = %s AND seen_at_ms <= %s ORDER BY name LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM worker USING over WHERE worker.shard_id = over.shard_id AND worker.name = over.name;

-- name: worker_erase
-- Erase workers of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM worker USING (SELECT shard_id, name FROM worker WHERE shard_id = %s LIMIT %s) AS few
WHERE worker.shard_id = few.shard_id AND worker.name = few.name;
