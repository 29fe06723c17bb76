-- The order in which keys run out.
CREATE INDEX key_end ON key (shard_id, until_ms);
