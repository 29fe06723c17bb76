-- Insert a finished job; an id that has one is a constraint error.
--
-- args     finished_job_id, shard_id, then the columns in the order of finished_job_find
INSERT INTO finished_job (finished_job_id, shard_id, id, state, pinned, until_ms, body, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?);
