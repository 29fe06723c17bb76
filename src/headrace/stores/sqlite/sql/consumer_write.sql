-- Remember a reader and how far it has come.
--
-- args     shard_id, name, seq, hold, seen_at_ms
INSERT OR REPLACE INTO consumer (shard_id, name, seq, hold, seen_at_ms) VALUES (?, ?, ?, ?, ?);
