-- The ids of jobs behind an id that have a blocked job and are not active, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM job WHERE shard_id = %s AND id > %s AND blocked_job IS NOT NULL AND fence IS NULL ORDER BY id LIMIT %s;
