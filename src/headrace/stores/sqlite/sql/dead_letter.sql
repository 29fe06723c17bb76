-- name: dead_letter_find
-- A dead letter by number.
--
-- args     shard_id, number
SELECT body FROM dead_letter WHERE shard_id = ? AND number = ?;

-- name: dead_letter_newest
-- The newest dead letter of an id.
--
-- args     shard_id, id
SELECT body FROM dead_letter WHERE shard_id = ? AND id = ? ORDER BY number DESC LIMIT 1;

-- name: dead_letter_of_id
-- The dead letters of an id, by number.
--
-- args     shard_id, id
SELECT body FROM dead_letter WHERE shard_id = ? AND id = ? ORDER BY number;

-- name: dead_letter_list
-- Dead letters behind a number, by number.
--
-- args     shard_id, after, limit
SELECT body FROM dead_letter WHERE shard_id = ? AND number > ? ORDER BY number LIMIT ?;

-- name: dead_letter_page
-- Dead letters below a number, the newest first.
--
-- args     shard_id, number, limit
SELECT body FROM dead_letter WHERE shard_id = ? AND number < ? ORDER BY number DESC LIMIT ?;

-- name: dead_letter_write
-- Write a dead letter.
--
-- args     shard_id, number, id, until_ms, body
INSERT INTO dead_letter (shard_id, number, id, until_ms, body) VALUES (?, ?, ?, ?, ?);

-- name: dead_letter_drop
-- Drop a dead letter.
--
-- args     shard_id, number
DELETE FROM dead_letter WHERE shard_id = ? AND number = ?;

-- name: dead_letter_erase
-- Erase the dead letters of a dropped shard, up to a limit.
--
-- args     shard_id, limit
DELETE FROM dead_letter WHERE dead_letter_id IN (SELECT dead_letter_id FROM dead_letter WHERE shard_id = ? LIMIT ?);
