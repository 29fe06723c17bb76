-- Ready jobs behind a place, in the order in which they are handed out.
--
-- args     shard_id, after place, limit
SELECT id, place, fence, run_at_ms, expires_at_ms, claimed_at_ms, cancel_asked, nonce, worker, enqueued_at_ms, attempts, stalls,
       kind, tag, rest, payload
FROM job WHERE shard_id = ? AND place > ? ORDER BY place LIMIT ?;
