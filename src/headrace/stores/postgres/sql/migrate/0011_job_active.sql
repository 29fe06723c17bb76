-- The order in which leases run out.
CREATE INDEX job_active ON job (shard_id, expires_at_ms, id) WHERE fence IS NOT NULL;
