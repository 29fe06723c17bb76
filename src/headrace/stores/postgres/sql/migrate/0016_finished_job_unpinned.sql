-- The order in which finished jobs are swept.
CREATE INDEX finished_job_unpinned ON finished_job (shard_id, finished_job_id) WHERE NOT pinned;
