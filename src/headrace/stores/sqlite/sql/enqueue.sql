-- Insert a job that must be new; a known id is a constraint error.
--
-- args     shard_id, id, place, run_at_ms, body, payload
INSERT INTO job (shard_id, id, place, run_at_ms, body, payload) VALUES (?, ?, ?, ?, ?, ?);
