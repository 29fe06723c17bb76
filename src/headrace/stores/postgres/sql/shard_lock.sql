-- Lock a shard's row, for whoever numbers its inbox.
--
-- args     shard_id
-- answers  the journal's counters, the counts
SELECT
  epoch, seq, at_ms, first_seq, journal_bytes, oldest_at_ms, ready, later, blocked, active, done, cancelled, dead,
  unpinned
FROM shard WHERE shard_id = %s FOR UPDATE;
