-- A feed by name.
--
-- args     tenant, name
SELECT feed_id, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms, changes_bytes,
  items, total, number
FROM feed WHERE tenant = ? AND name = ?;
