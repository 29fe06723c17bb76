-- Write a blocked job.
--
-- args     shard_id, id, body
INSERT OR REPLACE INTO blocked_job (shard_id, id, body) VALUES (?, ?, ?);
