-- At most one finished job per id.
CREATE UNIQUE INDEX finished_job_by_id ON finished_job (shard_id, id);
