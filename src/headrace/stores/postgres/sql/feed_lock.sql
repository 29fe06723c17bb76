-- Read a feed that is going to be written, and let nobody else write it until then.
--
-- args     tenant, name
-- answers  now, then the columns of feed_find from feed_id on
SELECT
  floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, feed_id, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms,
  changes_bytes, items, total, number
FROM feed WHERE tenant = %s AND name = %s FOR UPDATE;
