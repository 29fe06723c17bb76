-- The jobs of a batch.
--
-- args     shard_id, ids as a JSON array
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND id IN (SELECT value FROM json_each(?));
