-- name: finished_job_find
-- The finished job of an id.
--
-- args     shard_id, id
SELECT id, state, pinned, until_ms, body, result FROM finished_job WHERE shard_id = ? AND id = ?;

-- name: finished_job_write
-- Insert a finished job; an id that has one is a constraint error.
--
-- args     finished_job_id, shard_id, then the columns in the order of finished_job_find
INSERT INTO finished_job (finished_job_id, shard_id, id, state, pinned, until_ms, body, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: finished_job_write_run
-- Insert a run of finished jobs that differ in id and body only; an id that has one is a constraint error.
--
-- args     finished_job_id of the first, shard_id, state, pinned, until_ms, bodies of one length as one blob, that length
--          twice, result, ids as a JSON array
INSERT INTO finished_job (finished_job_id, shard_id, id, state, pinned, until_ms, body, result)
SELECT ? + key, ?, value, ?, ?, ?, substr(?, key * ? + 1, ?), ? FROM json_each(?);

-- name: finished_job_drop
-- Drop the finished jobs of a batch of ids.
--
-- args     shard_id, ids as a JSON array
-- answers  state and pinned of each
DELETE FROM finished_job WHERE shard_id = ? AND id IN (SELECT value FROM json_each(?)) RETURNING state, pinned;

-- name: finished_job_oldest
-- The expiry times of the oldest unpinned finished jobs, oldest first.
--
-- args     lowest key, highest key, limit
SELECT until_ms FROM finished_job WHERE finished_job_id BETWEEN ? AND ? ORDER BY finished_job_id LIMIT ?;

-- name: finished_job_drop_oldest
-- Drop the oldest unpinned finished jobs of a shard; it must have as many.
--
-- args     lowest key, highest key and how many less one, by name
-- answers  the state of each
DELETE FROM finished_job WHERE finished_job_id BETWEEN :lowest AND (
  SELECT finished_job_id FROM finished_job WHERE finished_job_id BETWEEN :lowest AND :highest
  ORDER BY finished_job_id LIMIT 1 OFFSET :others)
RETURNING state;

-- name: finished_job_drop_pinned
-- Drop expired pinned finished jobs, the earliest first.
--
-- args     shard_id, now_ms, limit
-- answers  the state of each
DELETE FROM finished_job WHERE finished_job_id IN (
  SELECT finished_job_id FROM finished_job WHERE shard_id = ? AND pinned = 1 AND until_ms <= ? ORDER BY until_ms, id LIMIT ?)
RETURNING state;

-- name: finished_job_ids
-- The ids of finished jobs in a state behind an id, by id.
--
-- args     shard_id, after id, state, limit
SELECT id FROM finished_job WHERE shard_id = ? AND id > ? AND state = ? ORDER BY id LIMIT ?;

-- name: finished_job_id_behind
-- The id of the finished job so many finished jobs behind an id, by id.
--
-- args     shard_id, after id, finished jobs between
SELECT id FROM finished_job WHERE shard_id = ? AND id > ? ORDER BY id LIMIT 1 OFFSET ?;

-- name: finished_job_page
-- Finished jobs of a range of keys, the newest first, without results.
--
-- args     lowest key, key above the range, limit
SELECT finished_job_id, id, state, pinned, until_ms, body, NULL FROM finished_job
WHERE finished_job_id >= ? AND finished_job_id < ? ORDER BY finished_job_id DESC LIMIT ?;

-- name: finished_job_scan
-- Finished jobs behind an id, by id.
--
-- args     whether to read results, shard_id, after id, limit
SELECT id, state, pinned, until_ms, body, CASE WHEN ? THEN result END
FROM finished_job WHERE shard_id = ? AND id > ? ORDER BY id LIMIT ?;

-- name: finished_job_all
-- Every finished job of a shard.
--
-- args     shard_id
SELECT id, state, pinned, until_ms, body, result FROM finished_job WHERE shard_id = ?;

-- name: finished_job_erase
-- Erase the finished jobs of a dropped shard, up to a limit.
--
-- args     shard_id, limit
-- answers  state and pinned of each
DELETE FROM finished_job WHERE finished_job_id IN (SELECT finished_job_id FROM finished_job WHERE shard_id = ? LIMIT ?)
RETURNING state, pinned;
