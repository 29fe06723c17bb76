-- Remember a reader of a journal.
--
-- args     shard_id, name, seq, hold, seen_at_ms
INSERT INTO consumer (shard_id, name, seq, hold, seen_at_ms) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (shard_id, name) DO UPDATE SET seq = excluded.seq, hold = excluded.hold, seen_at_ms = excluded.seen_at_ms;
