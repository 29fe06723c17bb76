-- Statements on jobs that wait or are active, with the blocked jobs inside their rows.

-- name: job_load
-- Read jobs.
--
-- args     arrays: shard_id, id
SELECT
  job.shard_id, job.id, job.order_key, job.run_at_ms, job.expires_at_ms, job.fence, job.nonce, job.lease, job.body,
  job.payload, job.blocked_job
FROM unnest(%s::bigint[], %s::text[]) AS wanted (shard_id, id)
JOIN job ON job.shard_id = wanted.shard_id AND job.id = wanted.id;

-- name: job_lock
-- Lock and read jobs in the order of the arguments, which is that of shard and id: calls on the same jobs then wait for
-- each other and never in a ring. Each is looked up by itself: a join with ORDER BY would rather scan the whole
-- backlog.
--
-- args     arrays: shard_id, id
SELECT found.*
FROM unnest(%s::bigint[], %s::text[]) AS wanted (shard_id, id)
CROSS JOIN LATERAL (
  SELECT shard_id, id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
  FROM job WHERE job.shard_id = wanted.shard_id AND job.id = wanted.id FOR UPDATE
) AS found;

-- name: job_insert
-- Insert jobs; a known id is a unique violation.
--
-- args     shard_id, arrays: id, order key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked job
INSERT INTO job (shard_id, id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job)
SELECT %s::bigint, * FROM unnest(
  %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[],
  %s::bytea[]);

-- name: job_update
-- Write locked jobs; a body or payload of NULL leaves the stored one.
--
-- args     shard_id, arrays: id, order key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked job
UPDATE job SET
  order_key = new.order_key, run_at_ms = new.run_at_ms, expires_at_ms = new.expires_at_ms, fence = new.fence,
  nonce = new.nonce, lease = new.lease, body = coalesce(new.body, job.body),
  payload = coalesce(new.payload, job.payload), blocked_job = new.blocked_job
FROM (SELECT %s::bigint AS shard_id) AS of,
  unnest(
    %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bytea[], %s::bytea[],
    %s::bytea[], %s::bytea[])
  AS new (id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job)
WHERE job.shard_id = of.shard_id AND job.id = new.id;

-- name: job_drop
-- Drop jobs.
--
-- args     shard_id, ids
DELETE FROM job WHERE shard_id = %s AND id = ANY (%s::text[]);

-- name: job_reserve_ids
-- Reserve ids by inserting a row under each, to be dropped at once: another insert of the id waits for this
-- transaction. A known id is a unique violation.
--
-- args     shard_id, ids
INSERT INTO job (shard_id, id, run_at_ms, body, payload)
SELECT %s::bigint, id, 0, '', '' FROM unnest(%s::text[]) AS id;

-- name: job_next_times
-- The next times of some shards: the first end of a lease, the first time of a later job, the first order key of a
-- ready one.
--
-- args     shard_ids
SELECT
  shard_id,
  (SELECT expires_at_ms FROM job WHERE job.shard_id = wanted.shard_id AND fence IS NOT NULL
   ORDER BY expires_at_ms, id LIMIT 1),
  (SELECT run_at_ms FROM job WHERE job.shard_id = wanted.shard_id AND order_key IS NULL AND fence IS NULL
   ORDER BY run_at_ms, id LIMIT 1),
  (SELECT order_key FROM job WHERE job.shard_id = wanted.shard_id AND order_key IS NOT NULL ORDER BY order_key LIMIT 1)
FROM unnest(%s::bigint[]) AS wanted (shard_id);

-- name: job_overdue
-- Lock and read active jobs whose lease has run out, by its end, then id; rows that another transaction has locked are
-- skipped.
--
-- args     shard_id, now_ms, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
FROM job WHERE shard_id = %s AND fence IS NOT NULL AND expires_at_ms <= %s
ORDER BY expires_at_ms, id LIMIT %s FOR UPDATE SKIP LOCKED;

-- name: job_due
-- Lock and read later jobs whose time has come, by time, then id, and draw a number for each; rows that another
-- transaction has locked are skipped.
--
-- args     shard_id, now_ms, limit
WITH due AS MATERIALIZED (
  SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
  FROM job WHERE shard_id = %s AND order_key IS NULL AND fence IS NULL AND run_at_ms <= %s
  ORDER BY run_at_ms, id LIMIT %s FOR UPDATE SKIP LOCKED)
SELECT *, nextval('next_number') FROM due;

-- name: job_ready
-- Lock and read ready jobs after an order key, by order key, and draw a fence for each; rows that another transaction
-- has locked are skipped.
--
-- args     shard_id, after order key, limit
WITH ready AS MATERIALIZED (
  SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
  FROM job WHERE shard_id = %s AND order_key > %s ORDER BY order_key LIMIT %s FOR UPDATE SKIP LOCKED)
SELECT *, nextval('next_fence') FROM ready;

-- name: job_ready_unlocked
-- Ready jobs after an order key, by order key, not locked.
--
-- args     shard_id, after order key, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
FROM job WHERE shard_id = %s AND order_key > %s ORDER BY order_key LIMIT %s;

-- name: job_of_nonce
-- Active jobs that were handed out under a nonce, by fence.
--
-- args     shard_id, nonce
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
FROM job WHERE shard_id = %s AND fence IS NOT NULL AND nonce = %s ORDER BY fence;

-- name: job_ended
-- Whether one of some jobs has ended: it neither waits nor runs, or its finished job is kept.
--
-- args     ids of shards, ids
SELECT EXISTS (
  SELECT FROM unnest(%s::bigint[], %s::text[]) AS wanted (shard_id, id)
  WHERE NOT EXISTS (SELECT FROM job WHERE job.shard_id = wanted.shard_id AND job.id = wanted.id)
    OR EXISTS (
      SELECT FROM finished_job
      WHERE finished_job.shard_id = wanted.shard_id AND finished_job.id = wanted.id
        AND until_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
    )
);

-- name: job_oldest
-- The first ready job of each priority, and the first later one if its time has come.
--
-- args     shard_id, bits of a number, bits of a number, shard_id, now_ms
-- answers  run_at_ms and body of each
SELECT first.run_at_ms, first.body
FROM (SELECT %s::bigint AS shard_id) AS of, generate_series(0, 9) AS rank, LATERAL (
  SELECT run_at_ms, body FROM job
  WHERE job.shard_id = of.shard_id
    AND order_key >= rank::bigint << %s::integer AND order_key < (rank + 1)::bigint << %s::integer
  ORDER BY order_key LIMIT 1) AS first
UNION ALL
(SELECT run_at_ms, body FROM (
  SELECT run_at_ms, body FROM job WHERE shard_id = %s AND order_key IS NULL AND fence IS NULL
  ORDER BY run_at_ms, id LIMIT 1) AS later
WHERE run_at_ms <= %s);

-- name: job_ids_waiting
-- The ids of waiting jobs after an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM job WHERE shard_id = %s AND id > %s AND fence IS NULL ORDER BY id LIMIT %s;

-- name: job_ids_active
-- The ids of active jobs after an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM job WHERE shard_id = %s AND id > %s AND fence IS NOT NULL ORDER BY id LIMIT %s;

-- name: job_ids_blocked
-- The ids of jobs with a blocked job after an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM job WHERE shard_id = %s AND id > %s AND blocked_job IS NOT NULL ORDER BY id LIMIT %s;

-- name: job_id_behind
-- The id of the waiting or active job so many jobs behind an id, by id.
--
-- args     shard_id, after id, jobs between
SELECT id FROM job WHERE shard_id = %s AND id > %s ORDER BY id LIMIT 1 OFFSET %s;

-- name: job_page_ready
-- Ready jobs after an order key, by order key, without payloads.
--
-- args     shard_id, after order key, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, ''::bytea, blocked_job
FROM job WHERE shard_id = %s AND order_key > %s ORDER BY order_key LIMIT %s;

-- name: job_page_later
-- Later jobs after a time and id, by that, without payloads.
--
-- args     shard_id, after run_at_ms, after id, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, ''::bytea, blocked_job
FROM job WHERE shard_id = %s AND order_key IS NULL AND fence IS NULL AND (run_at_ms, id) > (%s, %s)
ORDER BY run_at_ms, id LIMIT %s;

-- name: job_page_active
-- Active jobs after the end of a lease and an id, by that, without payloads.
--
-- args     shard_id, after expires_at_ms, after id, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, ''::bytea, blocked_job
FROM job WHERE shard_id = %s AND fence IS NOT NULL AND (expires_at_ms, id) > (%s, %s)
ORDER BY expires_at_ms, id LIMIT %s;

-- name: job_ready_before
-- How many ready jobs have a lower order key, up to a limit.
--
-- args     shard_id, order key, limit
SELECT count(*) FROM (
  SELECT 1 FROM job WHERE shard_id = %s AND order_key < %s ORDER BY order_key LIMIT %s) AS found;

-- name: job_scan
-- Waiting and active jobs after an id, by id, until their payloads reach a number of bytes.
--
-- args     whether to read payloads, shard_id, after id, limit, bytes
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body,
  CASE WHEN %s THEN payload ELSE '' END, blocked_job FROM (
  SELECT *, sum(octet_length(payload)) OVER (ORDER BY id) - octet_length(payload) AS bytes_before
  FROM (SELECT * FROM job WHERE shard_id = %s AND id > %s ORDER BY id LIMIT %s) AS page) AS measured
WHERE bytes_before < %s ORDER BY id;

-- name: job_all
-- Every job of a shard.
--
-- args     shard_id
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
FROM job WHERE shard_id = %s;

-- name: job_leases_over
-- How many leases have run out, up to a limit.
--
-- args     shard_id, now_ms, limit
SELECT count(*) FROM (
  SELECT 1 FROM job WHERE shard_id = %s AND fence IS NOT NULL AND expires_at_ms <= %s
  ORDER BY expires_at_ms, id LIMIT %s) AS found;

-- name: job_stranded
-- The ids of jobs after an id that have a blocked job and are not active, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM job WHERE shard_id = %s AND id > %s AND blocked_job IS NOT NULL AND fence IS NULL ORDER BY id LIMIT %s;
