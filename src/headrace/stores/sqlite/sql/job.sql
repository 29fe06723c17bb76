-- name: job_load
-- The jobs of a batch.
--
-- args     shard_id, ids as a JSON array
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND id IN (SELECT value FROM json_each(?));

-- name: job_write
-- Insert a job or replace it.
--
-- args     shard_id, then the columns in the order of job_load
INSERT INTO job (shard_id, id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (shard_id, id) DO UPDATE SET
  order_key = excluded.order_key, run_at_ms = excluded.run_at_ms, expires_at_ms = excluded.expires_at_ms,
  fence = excluded.fence, nonce = excluded.nonce, lease = excluded.lease, body = excluded.body,
  payload = excluded.payload;

-- name: job_write_lease
-- Write the columns of a delivery, not those of the job.
--
-- args     expires_at_ms, fence, nonce, lease, shard_id, id
UPDATE job SET order_key = NULL, expires_at_ms = ?, fence = ?, nonce = ?, lease = ? WHERE shard_id = ? AND id = ?;

-- name: job_drop
-- Drop a job.
--
-- args     shard_id, id
DELETE FROM job WHERE shard_id = ? AND id = ?;

-- name: job_enqueue
-- Insert a new job; a known id is a constraint error.
--
-- args     shard_id, id, order key, run_at_ms, body, payload
INSERT INTO job (shard_id, id, order_key, run_at_ms, body, payload) VALUES (?, ?, ?, ?, ?, ?);

-- name: job_claim_next
-- The first ready jobs in the order of claims.
--
-- args     shard_id, limit
SELECT order_key, id, run_at_ms, body, payload FROM job WHERE shard_id = ? AND order_key IS NOT NULL ORDER BY order_key LIMIT ?;

-- name: job_claim_run
-- Claim the ready jobs of an unbroken run of order keys. Fences count up with the keys, so no job needs an argument of
-- its own.
--
-- args     fence of order key 0, expires_at_ms, nonce, lease, shard_id, first order key, last order key
UPDATE job SET fence = ? + order_key, order_key = NULL, expires_at_ms = ?, nonce = ?, lease = ?
WHERE shard_id = ? AND order_key BETWEEN ? AND ?;

-- name: job_settle_find
-- The jobs of a batch whose leases have not expired; an id given twice comes twice.
--
-- args     ids as a JSON array, shard_id, now_ms
-- answers  job_id, id, fence, nonce and body of each
SELECT job.job_id, job.id, job.fence, job.nonce, job.body
FROM json_each(?) CROSS JOIN job INDEXED BY job_by_id
ON job.shard_id = ? AND job.id = json_each.value AND job.expires_at_ms > ?;

-- name: job_settle_run
-- Drop the jobs of an unbroken run of job_ids.
--
-- args     first job_id, last job_id
DELETE FROM job WHERE job_id BETWEEN ? AND ?;

-- name: job_settle_each
-- Drop the jobs of a batch.
--
-- args     their job_ids as a JSON array
DELETE FROM job WHERE job_id IN (SELECT value FROM json_each(?));

-- name: job_ready
-- Ready jobs behind an order key, in the order of claims.
--
-- args     shard_id, after order key, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND order_key > ? ORDER BY order_key LIMIT ?;

-- name: job_due
-- Later jobs that are due, by time, then id.
--
-- args     shard_id, now_ms, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND order_key IS NULL AND fence IS NULL AND run_at_ms <= ? ORDER BY run_at_ms, id LIMIT ?;

-- name: job_overdue
-- Active jobs whose lease has expired, by its end, then id.
--
-- args     shard_id, now_ms, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND fence IS NOT NULL AND expires_at_ms <= ? ORDER BY expires_at_ms, id LIMIT ?;

-- name: job_of_nonce
-- Active jobs that were claimed under a nonce, by fence. Rare: only after a lost response.
--
-- args     shard_id, nonce
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND fence IS NOT NULL AND nonce = ? ORDER BY fence;

-- name: job_first_ready
-- The first ready job of one priority, a range of order keys.
--
-- args     shard_id, lowest order key, highest order key
SELECT run_at_ms, body FROM job WHERE shard_id = ? AND order_key BETWEEN ? AND ? ORDER BY order_key LIMIT 1;

-- name: job_first_later
-- The first later job.
--
-- args     shard_id
SELECT run_at_ms, body FROM job WHERE shard_id = ? AND order_key IS NULL AND fence IS NULL ORDER BY run_at_ms, id LIMIT 1;

-- name: job_first_lease
-- The earliest end of a lease.
--
-- args     shard_id
SELECT expires_at_ms FROM job WHERE shard_id = ? AND fence IS NOT NULL ORDER BY expires_at_ms, id LIMIT 1;

-- name: job_ids_waiting
-- The ids of waiting jobs behind an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM job WHERE shard_id = ? AND id > ? AND fence IS NULL ORDER BY id LIMIT ?;

-- name: job_ids_active
-- The ids of active jobs behind an id, by id. Reads the index of leases: there are few active jobs among many waiting.
--
-- args     shard_id, after id, limit
SELECT id FROM job INDEXED BY job_lease WHERE shard_id = ? AND fence IS NOT NULL AND id > ? ORDER BY id LIMIT ?;

-- name: job_id_behind
-- The id of the waiting or active job so many jobs behind an id, by id.
--
-- args     shard_id, after id, jobs between
SELECT id FROM job WHERE shard_id = ? AND id > ? ORDER BY id LIMIT 1 OFFSET ?;

-- name: job_page_ready
-- Ready jobs behind an order key, in the order of claims, without payloads.
--
-- args     shard_id, after order key, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, x''
FROM job WHERE shard_id = ? AND order_key > ? ORDER BY order_key LIMIT ?;

-- name: job_page_later
-- Later jobs behind a time and id, by that, without payloads.
--
-- args     shard_id, after run_at_ms, after id, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, x''
FROM job WHERE shard_id = ? AND order_key IS NULL AND fence IS NULL AND (run_at_ms, id) > (?, ?)
ORDER BY run_at_ms, id LIMIT ?;

-- name: job_page_active
-- Active jobs behind the end of a lease and an id, by that, without payloads.
--
-- args     shard_id, after expires_at_ms, after id, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, x''
FROM job WHERE shard_id = ? AND fence IS NOT NULL AND (expires_at_ms, id) > (?, ?) ORDER BY expires_at_ms, id LIMIT ?;

-- name: job_ready_before
-- How many ready jobs have a lower order key, up to a limit.
--
-- args     shard_id, order key, limit
SELECT count(*) FROM (SELECT 1 FROM job WHERE shard_id = ? AND order_key < ? LIMIT ?);

-- name: job_scan
-- Waiting and active jobs behind an id, by id.
--
-- args     whether to read payloads, shard_id, after id, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, CASE WHEN ? THEN payload ELSE x'' END
FROM job WHERE shard_id = ? AND id > ? ORDER BY id LIMIT ?;

-- name: job_all
-- Every job of a shard.
--
-- args     shard_id
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ?;

-- name: job_leases_over
-- A row for each expired lease, up to a limit.
--
-- args     shard_id, now_ms, limit
SELECT 1 FROM job INDEXED BY job_lease WHERE shard_id = ? AND fence IS NOT NULL AND expires_at_ms <= ? LIMIT ?;
