-- Active jobs that have a blocked job.
CREATE INDEX job_blocked ON job (shard_id, id) WHERE blocked_job IS NOT NULL;
