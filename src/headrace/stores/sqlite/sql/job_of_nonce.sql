-- Active jobs that were handed out under a nonce, by fence. Rare: only after a lost answer.
--
-- args     shard_id, nonce
SELECT id, place, fence, run_at_ms, expires_at_ms, claimed_at_ms, cancel_asked, nonce, worker, enqueued_at_ms, attempts, stalls,
       kind, tag, rest, payload
FROM job WHERE shard_id = ? AND fence IS NOT NULL AND nonce = ? ORDER BY fence;
