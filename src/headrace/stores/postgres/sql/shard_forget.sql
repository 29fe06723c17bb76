-- Forget the shards of a queue.
--
-- args     queue_id
DELETE FROM shard WHERE queue_id = %s;
