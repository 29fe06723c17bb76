-- Erase what is left of a shard, some rows at a time.
--
-- args     shard_id, limit
-- answers  state and pinned of each
DELETE FROM finished_job WHERE finished_job_id IN (SELECT finished_job_id FROM finished_job WHERE shard_id = ? LIMIT ?) RETURNING state, pinned;
