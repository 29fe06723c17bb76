-- Read jobs.
--
-- args     arrays: shard_id, id
SELECT
  job.shard_id, job.id, job.order_key, job.run_at_ms, job.expires_at_ms, job.fence, job.nonce, job.lease, job.body,
  job.payload, job.blocked_job
FROM unnest(%s::bigint[], %s::text[]) AS wanted (shard_id, id)
JOIN job ON job.shard_id = wanted.shard_id AND job.id = wanted.id;
