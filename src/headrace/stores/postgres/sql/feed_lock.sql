-- Read a feed that is going to be written, and let nobody else write it until then.
--
-- args     tenant, name
-- answers  as feed_find
SELECT
  tenant, name, feed_id, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms,
  changes_bytes, items, total, number
FROM feed WHERE tenant = %s AND name = %s FOR UPDATE;
