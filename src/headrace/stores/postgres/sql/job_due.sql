-- Lock and read later jobs whose time has come, by time, then id, and draw a number for each; what somebody else is at
-- is left to them.
--
-- args     shard_id, now_ms, limit
WITH due AS MATERIALIZED (
  SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
  FROM job WHERE shard_id = %s AND order_key IS NULL AND fence IS NULL AND run_at_ms <= %s
  ORDER BY run_at_ms, id LIMIT %s FOR UPDATE SKIP LOCKED)
SELECT *, nextval('next_number') FROM due;
