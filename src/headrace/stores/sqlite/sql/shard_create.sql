-- Make a shard of a queue.
--
-- args     queue_id, shard
INSERT INTO shard (queue_id, shard) VALUES (?, ?);
