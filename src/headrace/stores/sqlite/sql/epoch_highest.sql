-- The highest epoch of any shard.
SELECT coalesce(max(epoch), 1) FROM shard;
