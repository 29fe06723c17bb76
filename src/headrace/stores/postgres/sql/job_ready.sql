-- Lock and read ready jobs behind a place, by place, and draw a fence for each; what somebody else is at is left to them.
--
-- args     shard_id, after place, limit
WITH ready AS MATERIALIZED (
  SELECT id, place, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
  FROM job WHERE shard_id = %s AND place > %s ORDER BY place LIMIT %s FOR UPDATE SKIP LOCKED)
SELECT *, nextval('next_fence') FROM ready;
