-- Active jobs whose lease has run out, by its end, then id.
--
-- args     shard_id, now_ms, limit
SELECT id, place, fence, run_at_ms, expires_at_ms, claimed_at_ms, cancel_asked, nonce, worker, enqueued_at_ms, attempts, stalls,
       kind, tag, rest, payload
FROM job WHERE shard_id = ? AND fence IS NOT NULL AND expires_at_ms <= ? ORDER BY expires_at_ms, id LIMIT ?;
