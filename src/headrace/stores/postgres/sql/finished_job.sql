-- Statements on jobs that are done or cancelled.

-- name: finished_job_find
-- The finished job of an id.
--
-- args     shard_id, id
SELECT id, state, pinned, until_ms, body, result FROM finished_job WHERE shard_id = %s AND id = %s;

-- name: finished_job_lock
-- Lock the finished jobs of a batch of ids, by id.
--
-- args     shard_id, ids
-- answers  id, state and pinned of each
SELECT id, state, pinned FROM finished_job WHERE shard_id = %s AND id = ANY (%s::text[]) ORDER BY id FOR UPDATE;

-- name: finished_job_write
-- Insert finished jobs; an id that has one is a unique violation.
--
-- args     shard_id, arrays: id, state, pinned, until_ms, body, result
INSERT INTO finished_job (shard_id, id, state, pinned, until_ms, body, result)
SELECT %s::bigint, * FROM unnest(%s::text[], %s::text[], %s::boolean[], %s::bigint[], %s::bytea[], %s::bytea[]);

-- name: finished_job_drop
-- Drop the finished jobs of a batch of ids.
--
-- args     shard_id, ids
DELETE FROM finished_job WHERE shard_id = %s AND id = ANY (%s::text[]);

-- name: finished_job_next_times
-- When the oldest unpinned finished job runs out, and the first pinned one.
--
-- args     shard_id
SELECT
  (SELECT until_ms FROM finished_job WHERE shard_id = of.shard_id AND NOT pinned ORDER BY finished_job_id LIMIT 1),
  (SELECT until_ms FROM finished_job WHERE shard_id = of.shard_id AND pinned ORDER BY until_ms, id LIMIT 1)
FROM (SELECT %s::bigint AS shard_id) AS of;

-- name: finished_job_sweep
-- Drop the oldest unpinned finished jobs; rows that another transaction has locked are skipped.
--
-- args     shard_id, limit
-- answers  id and state of each
WITH over AS MATERIALIZED (
  SELECT shard_id, id FROM finished_job WHERE shard_id = %s AND NOT pinned ORDER BY finished_job_id LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM finished_job USING over WHERE finished_job.shard_id = over.shard_id AND finished_job.id = over.id
RETURNING finished_job.id, finished_job.state;

-- name: finished_job_sweep_old
-- Drop the oldest unpinned finished jobs as long as each has run out; rows that another transaction has locked are
-- skipped.
--
-- args     shard_id, limit, now_ms
-- answers  id and state of each
WITH oldest AS MATERIALIZED (
  SELECT shard_id, id, finished_job_id, until_ms FROM finished_job WHERE shard_id = %s AND NOT pinned
  ORDER BY finished_job_id LIMIT %s FOR UPDATE SKIP LOCKED),
over AS (
  SELECT shard_id, id, max(until_ms) OVER (ORDER BY finished_job_id) AS latest_ms FROM oldest)
DELETE FROM finished_job USING over
WHERE finished_job.shard_id = over.shard_id AND finished_job.id = over.id AND over.latest_ms <= %s
RETURNING finished_job.id, finished_job.state;

-- name: finished_job_sweep_pinned
-- Drop pinned finished jobs that have run out, by their end; rows that another transaction has locked are skipped.
--
-- args     shard_id, now_ms, limit
-- answers  id and state of each
WITH over AS MATERIALIZED (
  SELECT shard_id, id FROM finished_job WHERE shard_id = %s AND pinned AND until_ms <= %s ORDER BY until_ms, id LIMIT %s
  FOR UPDATE SKIP LOCKED)
DELETE FROM finished_job USING over WHERE finished_job.shard_id = over.shard_id AND finished_job.id = over.id
RETURNING finished_job.id, finished_job.state;

-- name: finished_job_ids
-- The ids of finished jobs in a state after an id, by id.
--
-- args     shard_id, after id, state, limit
SELECT id FROM finished_job WHERE shard_id = %s AND id > %s AND state = %s ORDER BY id LIMIT %s;

-- name: finished_job_id_behind
-- The id of the finished job so many finished jobs behind an id, by id.
--
-- args     shard_id, after id, finished jobs between
SELECT id FROM finished_job WHERE shard_id = %s AND id > %s ORDER BY id LIMIT 1 OFFSET %s;

-- name: finished_job_page_unpinned
-- Unpinned finished jobs below a number, the newest first, without results.
--
-- args     shard_id, number, limit
SELECT finished_job_id, id, state, pinned, until_ms, body, NULL::bytea FROM finished_job
WHERE shard_id = %s AND NOT pinned AND finished_job_id < %s ORDER BY finished_job_id DESC LIMIT %s;

-- name: finished_job_page_pinned
-- The same for pinned ones.
--
-- args     shard_id, number, limit
SELECT finished_job_id, id, state, pinned, until_ms, body, NULL::bytea FROM finished_job
WHERE shard_id = %s AND pinned AND finished_job_id < %s ORDER BY finished_job_id DESC LIMIT %s;

-- name: finished_job_scan
-- Finished jobs after an id, by id, until their results reach a number of bytes.
--
-- args     whether to read results, shard_id, after id, limit, bytes
SELECT id, state, pinned, until_ms, body, CASE WHEN %s THEN result END FROM (
  SELECT *, sum(size) OVER (ORDER BY id) - size AS bytes_before FROM (
    SELECT *, coalesce(octet_length(result), 0) AS size
    FROM finished_job WHERE shard_id = %s AND id > %s ORDER BY id LIMIT %s) AS page) AS measured
WHERE bytes_before < %s ORDER BY id;

-- name: finished_job_all
-- Every finished job of a shard.
--
-- args     shard_id
SELECT id, state, pinned, until_ms, body, result FROM finished_job WHERE shard_id = %s;

-- name: finished_job_erase
-- Erase finished jobs of a shard, some rows at a time.
--
-- args     shard_id, limit
-- answers  state and pinned of each
DELETE FROM finished_job USING (SELECT shard_id, id FROM finished_job WHERE shard_id = %s LIMIT %s) AS few
WHERE finished_job.shard_id = few.shard_id AND finished_job.id = few.id
RETURNING finished_job.state, finished_job.pinned;
