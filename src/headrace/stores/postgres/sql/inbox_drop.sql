-- Take calls out of the inbox of a shard: they are numbered.
--
-- args     shard_id, tickets
DELETE FROM inbox WHERE shard_id = %s AND ticket = ANY (%s::bigint[]);
