-- Begin a new epoch of every shard.
UPDATE shard SET epoch = epoch + 1
