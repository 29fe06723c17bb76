-- Statements on feeds and on dropped feeds that are still to be erased.

-- name: feed_find
-- Read feeds.
--
-- args     arrays: tenant, name
-- answers  tenant and name of each that exists, feed_id, configuration, birth, counters
SELECT
  feed.tenant, feed.name, feed_id, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms,
  changes_bytes, items, total, number
FROM unnest(%s::text[], %s::text[]) AS wanted (tenant, name)
JOIN feed ON feed.tenant = wanted.tenant AND feed.name = wanted.name;

-- name: feed_lock
-- Lock and read a feed before a write.
--
-- args     tenant, name
-- answers  now, then the columns of feed_find from feed_id on
SELECT
  floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, feed_id, config, birth, created_at_ms, epoch, seq,
  seq_epoch, at_ms, first_seq, oldest_at_ms, changes_bytes, items, total, number
FROM feed WHERE tenant = %s AND name = %s FOR UPDATE;

-- name: feed_create
-- Insert a feed; a known name is a unique violation.
--
-- args     tenant, name, configuration, birth, counters
-- answers  feed_id
INSERT INTO feed (
  tenant, name, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms, changes_bytes,
  items, total, number)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING feed_id;

-- name: feed_write
-- Write back the row of a locked feed.
--
-- args     configuration, birth, counters, feed_id
UPDATE feed SET
  config = %s, birth = %s, created_at_ms = %s, epoch = %s, seq = %s, seq_epoch = %s, at_ms = %s, first_seq = %s,
  oldest_at_ms = %s, changes_bytes = %s, items = %s, total = %s, number = %s
WHERE feed_id = %s;

-- name: feed_epoch_raise
-- Begin a new epoch of every feed.
UPDATE feed SET epoch = greatest(epoch + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)

-- name: feed_forget
-- Delete the row of a feed, and record in feed_gone that its items and changes are still to be erased.
--
-- args     feed_id
WITH gone AS (DELETE FROM feed WHERE feed_id = %s RETURNING feed_id)
INSERT INTO feed_gone (feed_id) SELECT feed_id FROM gone;

-- name: feed_gone_find
-- A dropped feed that no other transaction is erasing.
--
-- answers  feed_id
SELECT feed_id FROM feed_gone ORDER BY feed_id LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: feed_gone_drop
-- Forget an erased feed.
--
-- args     feed_id
DELETE FROM feed_gone WHERE feed_id = %s;
