-- Jobs behind an id, waiting and active ones, by id.
--
-- args     shard_id, after id, limit
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND id > ? ORDER BY id LIMIT ?;
