-- Ready jobs behind an order key, by order key, only to be seen.
--
-- args     shard_id, after order key, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
FROM job WHERE shard_id = %s AND order_key > %s ORDER BY order_key LIMIT %s;
