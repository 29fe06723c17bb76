-- Write the counters of a feed.
--
-- args     epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms, changes_bytes, items, total, number, feed_id
UPDATE feed SET epoch = ?, seq = ?, seq_epoch = ?, at_ms = ?, first_seq = ?, oldest_at_ms = ?, changes_bytes = ?,
  items = ?, total = ?, number = ?
WHERE feed_id = ?;
