-- Statements on the rows of shards: the journal's counters and the counts of records.

-- name: shard_create
-- Insert the shards of a queue, in the epoch of the newest other shard: a shard that was lost with its queue must not
-- begin in its old epoch again.
--
-- args     queue_id, how many
-- answers  per shard: index, then the columns of queue_open from shard_id on
INSERT INTO shard (queue_id, index, epoch)
SELECT %s, n - 1, coalesce((SELECT epoch FROM shard ORDER BY shard_id DESC LIMIT 1), 1) FROM generate_series(1, %s) AS n
RETURNING
  index, shard_id, 0::bigint, epoch, seq, at_ms, first_seq, journal_bytes, oldest_at_ms, ready, later, blocked, active,
  done, cancelled, dead, unpinned;

-- name: shard_lock
-- Lock a shard's row in order to number its inbox.
--
-- args     shard_id
-- answers  the journal's counters, the counts
SELECT
  epoch, seq, at_ms, first_seq, journal_bytes, oldest_at_ms, ready, later, blocked, active, done, cancelled, dead,
  unpinned
FROM shard WHERE shard_id = %s FOR UPDATE;

-- name: shard_try_lock
-- Lock a shard's row unless another transaction has.
--
-- args     shard_id
SELECT 1 FROM shard WHERE shard_id = %s FOR UPDATE SKIP LOCKED;

-- name: shard_try_lock_many
-- Lock the rows of shards in order to number their inboxes, without those that another transaction has locked.
--
-- args     shard_ids
-- answers  per shard, in any order: shard_id, queue_id, config, the journal's counters, the counts
SELECT
  s.shard_id, s.queue_id, q.config, s.epoch, s.seq, s.at_ms, s.first_seq, s.journal_bytes, s.oldest_at_ms, s.ready,
  s.later, s.blocked, s.active, s.done, s.cancelled, s.dead, s.unpinned
FROM shard AS s JOIN queue AS q ON q.queue_id = s.queue_id
WHERE s.shard_id = ANY (%s::bigint[]) FOR UPDATE OF s SKIP LOCKED;

-- name: shard_write
-- Write back the row of a locked shard.
--
-- args     the journal's counters, the counts, shard_id
UPDATE shard SET
  epoch = %s, seq = %s, at_ms = %s, first_seq = %s, journal_bytes = %s, oldest_at_ms = %s, ready = %s, later = %s,
  blocked = %s, active = %s, done = %s, cancelled = %s, dead = %s, unpinned = %s
WHERE shard_id = %s;

-- name: shard_bounds
-- Bounds of the journals of shards, and whether their inboxes hold calls without numbers.
--
-- args     arrays: tenant, name, the name of its fail queue or main queue, index of the shard
-- answers  per shard, in any order: its position in the arrays from 1, the number of shards that its queue or else the
--          other one has, shard_id, whether its inbox holds something, epoch, first seq, last seq, time of the first
--          and of the last entry, bytes; null for what does not exist
SELECT
  wanted.position, coalesce(q.shards, paired_queue.shards), s.shard_id, i.holds IS NOT NULL,
  s.epoch, s.first_seq, s.seq, s.oldest_at_ms, s.at_ms, s.journal_bytes
FROM unnest(%s::text[], %s::text[], %s::text[], %s::integer[])
  WITH ORDINALITY AS wanted (tenant, name, paired_queue, index, position)
LEFT JOIN queue AS q ON q.tenant = wanted.tenant AND q.name = wanted.name
LEFT JOIN queue AS paired_queue ON paired_queue.tenant = wanted.tenant AND paired_queue.name = wanted.paired_queue
LEFT JOIN shard AS s ON s.queue_id = q.queue_id AND s.index = wanted.index
LEFT JOIN LATERAL (SELECT true AS holds FROM inbox WHERE inbox.shard_id = s.shard_id LIMIT 1) AS i ON true;

-- name: shard_count
-- The counts that a shard's row should have: its records counted, without the changes of calls in its inbox.
--
-- args     shard_id nine times
-- answers  ready, later, blocked, active, done, cancelled, dead, unpinned
SELECT
  (SELECT count(*) FROM job WHERE shard_id = %s AND order_key IS NOT NULL) - i.ready,
  (SELECT count(*) FROM job WHERE shard_id = %s AND order_key IS NULL AND fence IS NULL) - i.later,
  (SELECT count(*) FROM job WHERE shard_id = %s AND blocked_job IS NOT NULL) - i.blocked,
  (SELECT count(*) FROM job WHERE shard_id = %s AND fence IS NOT NULL) - i.active,
  (SELECT count(*) FROM finished_job WHERE shard_id = %s AND state = 'done') - i.done,
  (SELECT count(*) FROM finished_job WHERE shard_id = %s AND state <> 'done') - i.cancelled,
  (SELECT count(*) FROM dead_letter WHERE shard_id = %s) - i.dead,
  (SELECT count(*) FROM finished_job WHERE shard_id = %s AND NOT pinned) - i.unpinned
FROM (
  SELECT
    coalesce(sum(ready), 0)::bigint AS ready, coalesce(sum(later), 0)::bigint AS later,
    coalesce(sum(blocked), 0)::bigint AS blocked, coalesce(sum(active), 0)::bigint AS active,
    coalesce(sum(done), 0)::bigint AS done, coalesce(sum(cancelled), 0)::bigint AS cancelled,
    coalesce(sum(dead), 0)::bigint AS dead, coalesce(sum(unpinned), 0)::bigint AS unpinned
  FROM inbox WHERE shard_id = %s) AS i;

-- name: shard_epoch_raise
-- Begin a new epoch of every shard: the clock in milliseconds if that is later, which no lost epoch can have reached.
UPDATE shard SET epoch = greatest(epoch + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)

-- name: shard_forget
-- Forget the shards of a queue.
--
-- args     queue_id
DELETE FROM shard WHERE queue_id = %s;
