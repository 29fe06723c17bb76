-- The letters of an id.
CREATE INDEX letter_by_id ON letter (shard_id, id, number);
