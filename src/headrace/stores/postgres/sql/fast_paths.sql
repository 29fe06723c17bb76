-- Statements of the fast paths, most of them calls of the functions in migrations/0001_initial.sql.

-- name: enqueue_new
-- Insert jobs of one shard that are all new.
--
-- args     queue id, its configuration, shard id, now or NULL, waiting_max, then per job: id, first order key of its
--          priority, time or NULL for now, body before and after its time, payload; then all journal lines
-- answers  now, calls in the inbox; error HR001 or a duplicate key when anything is unusual
SELECT the_now_ms, unnumbered FROM enqueue_new(
  %b::bigint, %s::text, %b::bigint, %b::bigint, %b::bigint,
  %b::text[], %b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bytea[], %s::text)

-- name: promote_plain
-- Make later jobs of a shard ready whose time has come.
--
-- args     queue id, its configuration, shard id, now or NULL, first order key of the queue's priority, how many at
--          most
-- answers  how many; error HR001 when anything is unusual
SELECT promote_plain(%b::bigint, %s::text, %b::bigint, %b::bigint, %b::bigint, %b::bigint)

-- name: claim_read_shards
-- Read the shards that a claim visits.
--
-- args     now or NULL, arrays per shard: id, configuration; then the worker
-- answers  per shard, in the order given: now, id, whether the configuration is still this one, the first end of a
--          lease, the first time of a later job, the first order key of a ready one, the worker's last nonce, when it
--          was seen
SELECT * FROM claim_read_shards(%b::bigint, %b::bigint[], %b::text[], %s::text)

-- name: claim_take
-- Hand out the first ready jobs of a shard, without those that another claim has locked; fences grow as order keys do.
--
-- args     now or NULL, shard id, how many, nonce, length of the lease, the packed lease before and after its time
-- answers  per job, in any order: now, fence, id, order key, time, body, payload
WITH present AS MATERIALIZED (
  SELECT coalesce(%b::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms
), ready AS MATERIALIZED (
  SELECT ctid AS at, order_key FROM job WHERE shard_id = %b::bigint AND order_key IS NOT NULL
  ORDER BY order_key LIMIT %b::bigint FOR UPDATE SKIP LOCKED
), drawn AS MATERIALIZED (
  SELECT at, order_key, nextval('next_fence') AS fence FROM ready
)
UPDATE job SET order_key = NULL, fence = drawn.fence, nonce = %s::text, expires_at_ms = now_ms + %b::bigint,
  lease = %b::bytea || int8send(now_ms) || %b::bytea
FROM drawn, present
WHERE job.ctid = drawn.at
RETURNING now_ms, job.fence, job.id, drawn.order_key, job.run_at_ms, job.body, job.payload

-- name: claim_record
-- Record the jobs that a claim has handed out on a shard.
--
-- args     shard id, now, worker, how many, their journal lines, nonce, the last order key
-- answers  whether another ready job follows that order key
SELECT claim_record(%b::bigint, %b::bigint, %s::text, %b::bigint, %b::bytea, %s::text, %b::bigint)

-- name: settle_plain
-- Settle deliveries of one shard that are all done, in one statement.
--
-- args     queue id, its configuration, shard id, now or NULL, how long a finished job is kept, keep_done_max, finished
--          jobs to sweep at most, worker, all journal lines, then per job, in the order of ids: its position in the
--          call, id, token, result
-- answers  now, whether a process waits for the end of a job of the queue, calls in the inbox; error HR001 or a
--          duplicate key when anything is unusual, HR002 when settle_drop and settle_done have to decide
SELECT the_now_ms, is_awaited, unnumbered FROM settle_plain(
  %b::bigint, %s::text, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %s::text, %b::bytea,
  %b::bigint[], %b::text[], %b::text[], %b::bytea[])

-- name: settle_drop
-- Drop jobs that are being settled; the caller checks whether each may be, and rolls back otherwise. There is no
-- condition on the lease: with stale statistics it would make the planner use the index of leases instead of the
-- primary key.
--
-- args     now or NULL, configuration, queue id, shard id, ids
-- answers  per job: now, whether a process waits for the end of a job of the queue (NULL when the configuration is
--          another one), id, fence, nonce, end of the lease, whether it has a blocked job, body
DELETE FROM job USING (
  SELECT coalesce(%b::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms,
    (
      SELECT CASE WHEN config = %s::text THEN
        awaited_until_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
      END FROM queue WHERE queue_id = %b::bigint
    ) AS is_awaited
) AS present
WHERE shard_id = %b::bigint AND id = ANY (%b::text[])
RETURNING now_ms, is_awaited, id, fence, nonce, expires_at_ms, blocked_job IS NOT NULL, body

-- name: settle_done
-- Write finished jobs and journal lines of deliveries of one shard that are all done and already dropped.
--
-- args     shard id, now, keep_done_max, finished jobs to sweep at most, worker, how many, their journal lines, ids
--          without a finished job, then per finished job: id, until, 1 when pinned, body, result
-- answers  calls in the inbox; error HR001 or a duplicate key when anything is unusual
SELECT settle_done(
  %b::bigint, %b::bigint, %b::bigint, %b::bigint, %s::text, %b::bigint, %b::bytea, %b::text[],
  %b::text[], %b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[])
