-- Lock a shard's row unless somebody has it.
--
-- args     shard_id
SELECT 1 FROM shard WHERE shard_id = %s FOR UPDATE SKIP LOCKED;
