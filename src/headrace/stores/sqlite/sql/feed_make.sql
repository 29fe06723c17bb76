-- Make a feed, under a number of which nothing is left.
--
-- args     tenant, name, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms,
--          changes_bytes, items, total, number
INSERT INTO feed (
  feed_id, tenant, name, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms,
  changes_bytes, items, total, number
)
VALUES (
  1 + max(
    coalesce((SELECT max(feed_id) FROM feed), 0),
    coalesce((SELECT max(feed_id) FROM feed_gone), 0)
  ),
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
);
