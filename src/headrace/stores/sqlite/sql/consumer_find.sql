-- A reader of the journal by name.
--
-- args     shard_id, name
SELECT name, seq, hold, seen_at_ms FROM consumer WHERE shard_id = ? AND name = ?;
