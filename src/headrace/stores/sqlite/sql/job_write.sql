-- Insert a job, or write it anew.
--
-- args     shard_id, then the columns in the order of job_load
INSERT INTO job (shard_id, id, place, fence, run_at_ms, expires_at_ms, claimed_at_ms, cancel_asked, nonce, worker,
                 enqueued_at_ms, attempts, stalls, kind, tag, rest, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (shard_id, id) DO UPDATE SET
  place = excluded.place, fence = excluded.fence, run_at_ms = excluded.run_at_ms,
  expires_at_ms = excluded.expires_at_ms, claimed_at_ms = excluded.claimed_at_ms,
  cancel_asked = excluded.cancel_asked, nonce = excluded.nonce, worker = excluded.worker,
  enqueued_at_ms = excluded.enqueued_at_ms, attempts = excluded.attempts, stalls = excluded.stalls,
  kind = excluded.kind, tag = excluded.tag, rest = excluded.rest, payload = excluded.payload;
