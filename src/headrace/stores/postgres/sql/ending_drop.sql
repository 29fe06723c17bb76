-- Drop the endings of a batch of ids.
--
-- args     shard_id, ids
DELETE FROM ending WHERE shard_id = %s AND id = ANY (%s::text[]);
