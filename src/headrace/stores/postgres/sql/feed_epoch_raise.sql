-- Begin a new epoch of every feed.
UPDATE feed SET epoch = greatest(epoch + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
