-- Forget a reader of a journal.
--
-- args     shard_id, name
DELETE FROM consumer WHERE shard_id = %s AND name = %s;
