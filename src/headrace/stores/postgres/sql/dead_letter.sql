-- Statements on dead letters.

-- name: dead_letter_find
-- A dead letter by number.
--
-- args     shard_id, number
SELECT body FROM dead_letter WHERE shard_id = %s AND number = %s;

-- name: dead_letter_find_lock
-- A dead letter by number, locked.
--
-- args     shard_id, number
SELECT body FROM dead_letter WHERE shard_id = %s AND number = %s FOR UPDATE;

-- name: dead_letter_of_ids
-- The dead letters of a batch of ids, by number.
--
-- args     shard_id, ids
SELECT body FROM dead_letter WHERE shard_id = %s AND id = ANY (%s::text[]) ORDER BY number;

-- name: dead_letter_of_ids_lock
-- The dead letters of a batch of ids, by number, locked.
--
-- args     shard_id, ids
SELECT body FROM dead_letter WHERE shard_id = %s AND id = ANY (%s::text[]) ORDER BY number FOR UPDATE;

-- name: dead_letter_list
-- Dead letters after a number, by number.
--
-- args     shard_id, after, limit
SELECT body FROM dead_letter WHERE shard_id = %s AND number > %s ORDER BY number LIMIT %s;

-- name: dead_letter_page
-- Dead letters below a number, the newest first.
--
-- args     shard_id, number, limit
SELECT body FROM dead_letter WHERE shard_id = %s AND number < %s ORDER BY number DESC LIMIT %s;

-- name: dead_letter_list_lock
-- Dead letters after a number, by number, locked; rows that another transaction has locked are skipped.
--
-- args     shard_id, after, limit
SELECT body FROM dead_letter WHERE shard_id = %s AND number > %s ORDER BY number LIMIT %s FOR UPDATE SKIP LOCKED;

-- name: dead_letter_oldest
-- The oldest dead letters of a shard, without their bodies.
--
-- args     shard_id, limit
SELECT number, until_ms FROM dead_letter WHERE shard_id = %s ORDER BY number LIMIT %s;

-- name: dead_letter_scan
-- Dead letters after a number, by number, until they reach a number of bytes.
--
-- args     shard_id, after, limit, bytes
SELECT body FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY number) - octet_length(body) AS bytes_before
  FROM (SELECT * FROM dead_letter WHERE shard_id = %s AND number > %s ORDER BY number LIMIT %s) AS page) AS measured
WHERE bytes_before < %s ORDER BY number;

-- name: dead_letter_all
-- Every dead letter of a shard, by number.
--
-- args     shard_id
SELECT body FROM dead_letter WHERE shard_id = %s ORDER BY number;

-- name: dead_letter_write
-- Write dead letters.
--
-- args     shard_id, arrays: number, id, until_ms, body
INSERT INTO dead_letter (shard_id, number, id, until_ms, body)
SELECT %s::bigint, * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bytea[]);

-- name: dead_letter_drop
-- Drop dead letters.
--
-- args     shard_id, numbers
DELETE FROM dead_letter WHERE shard_id = %s AND number = ANY (%s::bigint[]);

-- name: dead_letter_erase
-- Erase dead letters of a shard, some rows at a time.
--
-- args     shard_id, limit
DELETE FROM dead_letter USING (SELECT shard_id, number FROM dead_letter WHERE shard_id = %s LIMIT %s) AS few
WHERE dead_letter.shard_id = few.shard_id AND dead_letter.number = few.number;
