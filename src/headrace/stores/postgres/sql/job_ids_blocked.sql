-- The ids of jobs with a blocked job behind an id, by id.
--
-- args     shard_id, after id, limit
SELECT id FROM job WHERE shard_id = %s AND id > %s AND blocked_job IS NOT NULL ORDER BY id LIMIT %s;
