-- Make the shards of a queue, in the epoch of their neighbours: one that was lost with all of it must not begin as it
-- began.
--
-- args     queue_id, how many
-- answers  per shard: index, then the columns of queue_open from shard_id on
INSERT INTO shard (queue_id, index, epoch)
SELECT %s, n - 1, coalesce((SELECT epoch FROM shard ORDER BY shard_id DESC LIMIT 1), 1) FROM generate_series(1, %s) AS n
RETURNING
  index, shard_id, 0::bigint, epoch, seq, at_ms, first_seq, journal_bytes, oldest_at_ms, ready, later, blocked, active,
  done, cancelled, dead, unpinned;
