-- Insert a worker; a known one is a unique violation.
--
-- args     nonce, seen_at_ms, shard_id, name
INSERT INTO worker (nonce, seen_at_ms, shard_id, name) VALUES (%s, %s, %s, %s);
