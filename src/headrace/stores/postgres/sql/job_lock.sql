-- Lock and read jobs in the order given, which is that of shard and id: calls on the same jobs then wait for each other
-- and never in a ring. Each is looked up by itself: a join with ORDER BY would rather walk through the whole backlog.
--
-- args     arrays: shard_id, id
SELECT found.*
FROM unnest(%s::bigint[], %s::text[]) AS wanted (shard_id, id)
CROSS JOIN LATERAL (
  SELECT shard_id, id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job
  FROM job WHERE job.shard_id = wanted.shard_id AND job.id = wanted.id FOR UPDATE
) AS found;
