-- At most one waiting-or-active record per id.
CREATE UNIQUE INDEX job_by_id ON job (shard_id, id);
