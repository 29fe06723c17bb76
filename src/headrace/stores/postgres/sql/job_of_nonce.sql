-- Active jobs that were handed out under a nonce, by fence.
--
-- args     shard_id, nonce
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
FROM job WHERE shard_id = %s AND fence IS NOT NULL AND nonce = %s ORDER BY fence;
