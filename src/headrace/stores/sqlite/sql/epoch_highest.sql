-- The highest epoch of any shard or feed.
SELECT max(coalesce((SELECT max(epoch) FROM shard), 1), coalesce((SELECT max(epoch) FROM feed), 1));
