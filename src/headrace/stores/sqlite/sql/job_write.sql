-- Insert a job, or write it anew.
--
-- args     shard_id, then the columns in the order of job_load
INSERT INTO job (shard_id, id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (shard_id, id) DO UPDATE SET
  order_key = excluded.order_key, run_at_ms = excluded.run_at_ms, expires_at_ms = excluded.expires_at_ms,
  fence = excluded.fence, nonce = excluded.nonce, lease = excluded.lease, body = excluded.body,
  payload = excluded.payload;
