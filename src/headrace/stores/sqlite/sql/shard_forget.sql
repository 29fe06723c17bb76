-- args     queue_id
DELETE FROM shard WHERE queue_id = ?;
