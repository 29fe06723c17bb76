-- The ids of endings in a state behind an id, by id.
--
-- args     shard_id, after id, state, limit
SELECT id FROM ending WHERE shard_id = %s AND id > %s AND state = %s ORDER BY id LIMIT %s;
