-- Drop the entries of a shard up to a seq.
--
-- args     shard_id, last_seq
DELETE FROM journal WHERE shard_id = %s AND last_seq <= %s;
