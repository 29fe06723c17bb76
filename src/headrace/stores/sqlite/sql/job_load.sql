-- The jobs of a batch.
--
-- args     shard_id, ids as a JSON array
SELECT id, place, fence, run_at_ms, expires_at_ms, claimed_at_ms, cancel_asked, nonce, worker, enqueued_at_ms, attempts, stalls,
       kind, tag, rest, payload
FROM job WHERE shard_id = ? AND id IN (SELECT value FROM json_each(?));
