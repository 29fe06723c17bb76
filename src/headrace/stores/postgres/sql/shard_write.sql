-- Write back the row of a shard that is locked.
--
-- args     the journal's counters, the counts, shard_id
UPDATE shard SET
  epoch = %s, seq = %s, at_ms = %s, first_seq = %s, journal_bytes = %s, oldest_at_ms = %s, ready = %s, later = %s,
  blocked = %s, active = %s, done = %s, cancelled = %s, dead = %s, unpinned = %s
WHERE shard_id = %s;
