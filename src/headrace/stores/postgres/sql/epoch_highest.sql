-- The highest epoch of any shard or feed, and the clock.
SELECT coalesce(max(epoch), 1), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (SELECT epoch FROM shard UNION ALL SELECT epoch FROM feed) AS every;
