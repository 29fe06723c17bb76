-- Whether one of a few jobs neither waits nor runs, or has a finished job that is kept.
--
-- args     ids of shards, ids
SELECT EXISTS (
  SELECT FROM unnest(%s::bigint[], %s::text[]) AS asked (shard_id, id)
  WHERE NOT EXISTS (SELECT FROM job WHERE job.shard_id = asked.shard_id AND job.id = asked.id)
    OR EXISTS (
      SELECT FROM finished_job
      WHERE finished_job.shard_id = asked.shard_id AND finished_job.id = asked.id
        AND until_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
    )
);
