-- The dead letters of an id.
CREATE INDEX dead_letter_by_id ON dead_letter (shard_id, id, number);
