-- Drop the finished jobs of a batch of ids.
--
-- args     shard_id, ids
DELETE FROM finished_job WHERE shard_id = %s AND id = ANY (%s::text[]);
