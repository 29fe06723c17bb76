-- Whether there is something in shards that were empty a moment ago.
--
-- args     shard_ids
SELECT 1 WHERE EXISTS (SELECT FROM job WHERE shard_id = ANY (%s::bigint[]))
UNION ALL
SELECT 1 WHERE EXISTS (SELECT FROM inbox WHERE shard_id = ANY (%s::bigint[]));
