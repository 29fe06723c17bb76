-- The highest epoch of any shard, and the clock.
SELECT coalesce(max(epoch), 1), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM shard;
