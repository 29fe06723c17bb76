-- Every job of a shard.
--
-- args     shard_id
SELECT id, place, fence, run_at_ms, expires_at_ms, claimed_at_ms, cancel_asked, nonce, worker, enqueued_at_ms, attempts, stalls,
       kind, tag, rest, payload
FROM job WHERE shard_id = ?;
