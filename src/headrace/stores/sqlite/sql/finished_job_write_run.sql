-- Insert a run of finished jobs that differ in id and body only; an id that has one is a constraint error.
--
-- args     finished_job_id of the first, shard_id, state, pinned, until_ms, bodies of one length as one blob, that length
--          twice, result, ids as a JSON array
INSERT INTO finished_job (finished_job_id, shard_id, id, state, pinned, until_ms, body, result)
SELECT ? + key, ?, value, ?, ?, ?, substr(?, key * ? + 1, ?), ? FROM json_each(?);
