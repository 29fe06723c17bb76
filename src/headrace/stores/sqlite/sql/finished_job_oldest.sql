-- The ends of the oldest unpinned finished jobs, oldest first.
--
-- args     lowest key, highest key, limit
SELECT until_ms FROM finished_job WHERE finished_job_id BETWEEN ? AND ? ORDER BY finished_job_id LIMIT ?;
