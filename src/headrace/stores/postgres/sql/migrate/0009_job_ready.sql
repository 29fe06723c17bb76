-- The order in which ready jobs are handed out.
CREATE INDEX job_ready ON job (shard_id, place) WHERE place IS NOT NULL;
