-- Write back the row of a feed that is locked.
--
-- args     configuration, birth, counters, feed_id
UPDATE feed SET
  config = %s, birth = %s, created_at_ms = %s, epoch = %s, seq = %s, seq_epoch = %s, at_ms = %s, first_seq = %s,
  oldest_at_ms = %s, changes_bytes = %s, items = %s, total = %s, number = %s
WHERE feed_id = %s;
