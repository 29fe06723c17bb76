-- What comes first in each order of some shards: the end of a lease, the time of a later job, the order key of a ready one.
--
-- args     shard_ids
SELECT
  shard_id,
  (SELECT expires_at_ms FROM job WHERE job.shard_id = wanted.shard_id AND fence IS NOT NULL
   ORDER BY expires_at_ms, id LIMIT 1),
  (SELECT run_at_ms FROM job WHERE job.shard_id = wanted.shard_id AND order_key IS NULL AND fence IS NULL
   ORDER BY run_at_ms, id LIMIT 1),
  (SELECT order_key FROM job WHERE job.shard_id = wanted.shard_id AND order_key IS NOT NULL ORDER BY order_key LIMIT 1)
FROM unnest(%s::bigint[]) AS wanted (shard_id);
