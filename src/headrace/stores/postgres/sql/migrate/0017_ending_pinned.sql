-- The order in which pinned endings run out.
CREATE INDEX ending_pinned ON ending (shard_id, until_ms, id) WHERE pinned;
