-- Ready jobs behind a place, by place, only to be seen.
--
-- args     shard_id, after place, limit
SELECT id, place, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
FROM job WHERE shard_id = %s AND place > %s ORDER BY place LIMIT %s;
