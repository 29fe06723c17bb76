-- The order in which ready jobs are handed out.
CREATE INDEX job_ready ON job (shard_id, order_key) WHERE order_key IS NOT NULL;
