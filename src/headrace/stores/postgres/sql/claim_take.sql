-- Hand out the first ready jobs of a shard that nobody else is handing out, with fences that grow as order keys do.
--
-- args     now or NULL, shard id, how many, nonce, length of the lease, the packed lease up to and behind its time
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
