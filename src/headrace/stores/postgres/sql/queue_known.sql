-- A queue with its shards.
--
-- args     tenant, name
-- answers  its id, its configuration, the ids of its shards by index
SELECT queue_id, config, array_agg(shard_id ORDER BY index)
FROM queue JOIN shard USING (queue_id)
WHERE tenant = %s::text AND name = %s::text
GROUP BY queue_id
