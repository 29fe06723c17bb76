-- At most one ending per id.
CREATE UNIQUE INDEX ending_by_id ON ending (shard_id, id);
