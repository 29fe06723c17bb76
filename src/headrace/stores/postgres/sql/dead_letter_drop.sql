-- Drop dead letters.
--
-- args     shard_id, numbers
DELETE FROM dead_letter WHERE shard_id = %s AND number = ANY (%s::bigint[]);
