-- Make a shard of a queue, in the epoch of its neighbours: one that was lost with all of it must not begin as it began.
--
-- args     queue_id, shard
INSERT INTO shard (queue_id, shard, epoch, fence) VALUES (
  ?,
  ?,
  coalesce((SELECT epoch FROM shard WHERE shard_id = (SELECT max(shard_id) FROM shard)), 1),
  coalesce((SELECT epoch * 1000 FROM shard WHERE shard_id = (SELECT max(shard_id) FROM shard) AND epoch > 1), 0)
);
