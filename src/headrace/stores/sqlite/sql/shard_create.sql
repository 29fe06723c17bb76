-- args     queue_id, shard
INSERT INTO shard (queue_id, shard) VALUES (?, ?);
