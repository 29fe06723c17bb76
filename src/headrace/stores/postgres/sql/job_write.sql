-- Insert jobs; a known id is a unique violation.
--
-- args     shard_id, arrays: id, order key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked job
INSERT INTO job (shard_id, id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job)
SELECT %s::bigint, * FROM unnest(
  %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[],
  %s::bytea[]);
