-- Lock and read active jobs whose lease has run out, by its end, then id; what somebody else is at is left to them.
--
-- args     shard_id, now_ms, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
FROM job WHERE shard_id = %s AND fence IS NOT NULL AND expires_at_ms <= %s
ORDER BY expires_at_ms, id LIMIT %s FOR UPDATE SKIP LOCKED;
