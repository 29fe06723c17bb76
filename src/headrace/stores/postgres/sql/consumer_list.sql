-- The readers of a journal, by name.
--
-- args     shard_id
SELECT name, seq, hold, seen_at_ms FROM consumer WHERE shard_id = %s ORDER BY name;
