-- Every job of a shard.
--
-- args     shard_id
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ?;
