-- Insert a job that must be new; a known id is a constraint error.
--
-- args     shard_id, id, order key, run_at_ms, body, payload
INSERT INTO job (shard_id, id, order_key, run_at_ms, body, payload) VALUES (?, ?, ?, ?, ?, ?);
