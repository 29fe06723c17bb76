-- Ready jobs behind a place, in the order in which they are handed out.
--
-- args     shard_id, after place, limit
SELECT id, place, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload
FROM job WHERE shard_id = ? AND place > ? ORDER BY place LIMIT ?;
