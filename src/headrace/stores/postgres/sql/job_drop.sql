-- Drop jobs.
--
-- args     shard_id, ids
DELETE FROM job WHERE shard_id = %s AND id = ANY (%s::text[]);
