-- Active jobs that have a twin.
CREATE INDEX job_blocked ON job (shard_id, id) WHERE twin IS NOT NULL;
