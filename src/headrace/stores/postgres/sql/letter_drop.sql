-- Drop letters.
--
-- args     shard_id, numbers
DELETE FROM letter WHERE shard_id = %s AND number = ANY (%s::bigint[]);
