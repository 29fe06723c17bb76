-- The ids of waiting jobs behind an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM job WHERE shard_id = %s AND id > %s AND fence IS NULL ORDER BY id LIMIT %s;
