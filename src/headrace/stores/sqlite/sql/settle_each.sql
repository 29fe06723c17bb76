-- Drop the jobs of a batch.
--
-- args     their job_ids as a JSON array
DELETE FROM job WHERE job_id IN (SELECT value FROM json_each(?));
