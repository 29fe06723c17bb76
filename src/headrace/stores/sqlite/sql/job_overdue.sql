-- Active jobs whose lease has run out, by its end, then id.
--
-- args     shard_id, now_ms, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND fence IS NOT NULL AND expires_at_ms <= ? ORDER BY expires_at_ms, id LIMIT ?;
