-- Later jobs whose time has come, by it, then id.
--
-- args     shard_id, now_ms, limit
SELECT id, place, fence, run_at_ms, expires_at_ms, claimed_at_ms, cancel_asked, nonce, worker, enqueued_at_ms, attempts, stalls,
       kind, tag, rest, payload
FROM job WHERE shard_id = ? AND place IS NULL AND fence IS NULL AND run_at_ms <= ? ORDER BY run_at_ms, id LIMIT ?;
