-- Lock and read ready jobs behind an order key, by order key, and draw a fence for each; what somebody else is at is left to them.
--
-- args     shard_id, after order key, limit
WITH ready AS MATERIALIZED (
  SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
  FROM job WHERE shard_id = %s AND order_key > %s ORDER BY order_key LIMIT %s FOR UPDATE SKIP LOCKED)
SELECT *, nextval('next_fence') FROM ready;
