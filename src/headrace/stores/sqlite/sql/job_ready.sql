-- Ready jobs behind an order key, in the order in which they are handed out.
--
-- args     shard_id, after order key, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND order_key > ? ORDER BY order_key LIMIT ?;
