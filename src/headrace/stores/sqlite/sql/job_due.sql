-- Later jobs whose time has come, by it, then id.
--
-- args     shard_id, now_ms, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND order_key IS NULL AND fence IS NULL AND run_at_ms <= ? ORDER BY run_at_ms, id LIMIT ?;
