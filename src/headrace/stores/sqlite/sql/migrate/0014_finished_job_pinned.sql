-- The order in which pinned finished jobs run out.
CREATE INDEX finished_job_pinned ON finished_job (shard_id, until_ms, id) WHERE pinned = 1;
