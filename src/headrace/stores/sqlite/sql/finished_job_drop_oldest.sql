-- Drop the oldest unpinned finished jobs of a shard; there must be as many.
--
-- args     lowest key, highest key and how many less one, by name
-- answers  the state of each
DELETE FROM finished_job WHERE finished_job_id BETWEEN :lowest AND (
  SELECT finished_job_id FROM finished_job WHERE finished_job_id BETWEEN :lowest AND :highest ORDER BY finished_job_id LIMIT 1 OFFSET :others)
RETURNING state;
