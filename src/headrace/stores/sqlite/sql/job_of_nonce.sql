-- Active jobs that were handed out under a nonce, by fence. Rare: only after a lost answer.
--
-- args     shard_id, nonce
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND fence IS NOT NULL AND nonce = ? ORDER BY fence;
