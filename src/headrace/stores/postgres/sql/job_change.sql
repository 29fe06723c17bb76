-- Write jobs that are locked; a body or payload that is NULL stays as it is.
--
-- args     shard_id, arrays: id, order key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked job
UPDATE job SET
  order_key = new.order_key, run_at_ms = new.run_at_ms, expires_at_ms = new.expires_at_ms, fence = new.fence, nonce = new.nonce,
  lease = new.lease, body = coalesce(new.body, job.body), payload = coalesce(new.payload, job.payload), blocked_job = new.blocked_job
FROM (SELECT %s::bigint AS shard_id) AS of,
  unnest(
    %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::text[], %s::bytea[], %s::bytea[],
    %s::bytea[], %s::bytea[])
  AS new (id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job)
WHERE job.shard_id = of.shard_id AND job.id = new.id;
