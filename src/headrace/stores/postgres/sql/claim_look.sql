-- What a claim has to know of the shards that it visits.
--
-- args     now or NULL, then per shard: id, configuration; then the worker
-- answers  per shard, in the order given: now, id, whether the configuration is this one, the first end of a lease, the
--          first time of a later job, the first place of a ready one, the worker's last nonce, when it was seen
SELECT now_ms, known.shard_id, queue.config = known.config,
  (
    SELECT expires_at_ms FROM job WHERE job.shard_id = known.shard_id AND fence IS NOT NULL
    ORDER BY expires_at_ms LIMIT 1
  ),
  (
    SELECT run_at_ms FROM job WHERE job.shard_id = known.shard_id AND place IS NULL AND fence IS NULL
    ORDER BY run_at_ms LIMIT 1
  ),
  (SELECT place FROM job WHERE job.shard_id = known.shard_id AND place IS NOT NULL ORDER BY place LIMIT 1),
  worker.nonce, worker.seen_at_ms
FROM (SELECT coalesce(%b::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms) AS present,
  unnest(%b::bigint[], %b::text[]) WITH ORDINALITY AS known (shard_id, config, position)
JOIN shard USING (shard_id)
JOIN queue USING (queue_id)
LEFT JOIN worker ON worker.shard_id = known.shard_id AND worker.name = %s::text
ORDER BY position
