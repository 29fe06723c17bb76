-- The earliest end of a lease.
--
-- args     shard_id
SELECT expires_at_ms FROM job WHERE shard_id = ? AND fence IS NOT NULL ORDER BY expires_at_ms, id LIMIT 1;
