-- Drop the jobs of an unbroken run of keys.
--
-- args     first job_id, last job_id
DELETE FROM job WHERE job_id BETWEEN ? AND ?;
