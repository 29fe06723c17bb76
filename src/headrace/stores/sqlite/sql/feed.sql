-- name: feed_find
-- A feed by name.
--
-- args     tenant, name
SELECT feed_id, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms, changes_bytes,
  items, total, number
FROM feed WHERE tenant = ? AND name = ?;

-- name: feed_create
-- Create a feed under a feed_id of which no rows are left.
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

-- name: feed_write
-- Write the counters of a feed.
--
-- args     epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms, changes_bytes, items, total, number, feed_id
UPDATE feed SET epoch = ?, seq = ?, seq_epoch = ?, at_ms = ?, first_seq = ?, oldest_at_ms = ?, changes_bytes = ?,
  items = ?, total = ?, number = ?
WHERE feed_id = ?;

-- name: feed_configure
-- Write the configuration of a feed.
--
-- args     config, feed_id
UPDATE feed SET config = ? WHERE feed_id = ?;

-- name: feed_forget
-- Drop a feed; its items and changes are erased later.
--
-- args     feed_id
DELETE FROM feed WHERE feed_id = ?;

-- name: feed_raise_epoch
-- The last writes may be lost: every feed gets a new epoch.
--
-- args     the clock in milliseconds
UPDATE feed SET epoch = max(epoch + 1, ?);
