-- name: shard_read
-- The counters of a shard, in the order of the arguments of shard_write.
--
-- args     queue_id, shard
SELECT shard_id, epoch, seq, at_ms, fence, number, dead_letter, first_seq, journal_bytes, oldest_at_ms,
       ready, later, blocked, active, done, cancelled, dead, unpinned, finished_job
FROM shard WHERE queue_id = ? AND shard = ?;

-- name: shard_write
-- Write the counters of a shard.
--
-- args     the counters in the order of shard_read, shard_id
UPDATE shard SET epoch = ?, seq = ?, at_ms = ?, fence = ?, number = ?, dead_letter = ?, first_seq = ?,
  journal_bytes = ?, oldest_at_ms = ?, ready = ?, later = ?, blocked = ?, active = ?, done = ?, cancelled = ?, dead = ?,
  unpinned = ?, finished_job = ?
WHERE shard_id = ?;

-- name: shard_create
-- Create a shard of a queue, in the epoch of the other shards: a lost shard must not come back with its old fences.
--
-- args     queue_id, shard
INSERT INTO shard (queue_id, shard, epoch, fence) VALUES (
  ?,
  ?,
  coalesce((SELECT epoch FROM shard WHERE shard_id = (SELECT max(shard_id) FROM shard)), 1),
  coalesce((SELECT epoch * 1000 FROM shard WHERE shard_id = (SELECT max(shard_id) FROM shard) AND epoch > 1), 0)
);

-- name: shard_forget
-- Drop the shards of a queue.
--
-- args     queue_id
DELETE FROM shard WHERE queue_id = ?;

-- name: shard_count
-- How many records of a shard are in each state, counted from the rows, not read from the counters.
--
-- args     shard_id, by name
-- answers  ready, later, blocked, active, done, cancelled, dead, unpinned
SELECT
  (SELECT count(*) FROM job WHERE shard_id = :shard_id AND order_key IS NOT NULL),
  (SELECT count(*) FROM job WHERE shard_id = :shard_id AND order_key IS NULL AND fence IS NULL),
  (SELECT count(*) FROM blocked_job WHERE shard_id = :shard_id),
  (SELECT count(*) FROM job WHERE shard_id = :shard_id AND fence IS NOT NULL),
  (SELECT count(*) FROM finished_job WHERE shard_id = :shard_id AND state = 'done'),
  (SELECT count(*) FROM finished_job WHERE shard_id = :shard_id AND state <> 'done'),
  (SELECT count(*) FROM dead_letter WHERE shard_id = :shard_id),
  (SELECT count(*) FROM finished_job WHERE shard_id = :shard_id AND pinned = 0);

-- name: shard_raise_epoch
-- The last writes may be lost: every shard gets an epoch and fences above all that the lost writes can have used.
--
-- args     the clock in milliseconds, in microseconds twice, fence jump for a clock that was put back
UPDATE shard SET epoch = max(epoch + 1, ?), fence = CASE WHEN ? > fence THEN ? ELSE fence + ? END;
