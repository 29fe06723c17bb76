-- How many leases have run out, as far as a limit.
--
-- args     shard_id, now_ms, limit
SELECT count(*) FROM (
  SELECT 1 FROM job WHERE shard_id = %s AND fence IS NOT NULL AND expires_at_ms <= %s
  ORDER BY expires_at_ms, id LIMIT %s) AS found;
