-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
-- answers  state and pinned of each
DELETE FROM finished_job USING (SELECT shard_id, id FROM finished_job WHERE shard_id = %s LIMIT %s) AS few
WHERE finished_job.shard_id = few.shard_id AND finished_job.id = few.id
RETURNING finished_job.state, finished_job.pinned;
