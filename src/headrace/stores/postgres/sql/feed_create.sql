-- Make a feed; a known name is a unique violation.
--
-- args     tenant, name, configuration, birth, counters
-- answers  feed_id
INSERT INTO feed (
  tenant, name, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms, changes_bytes,
  items, total, number)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING feed_id;
