-- A reader of a journal.
--
-- args     shard_id, name
SELECT name, seq, hold, seen_at_ms FROM consumer WHERE shard_id = %s AND name = %s;
