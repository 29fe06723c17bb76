-- Begin an epoch of every shard that no life of what was lost can have had: the clock in milliseconds, if that is later.
UPDATE shard SET epoch = greatest(epoch + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
