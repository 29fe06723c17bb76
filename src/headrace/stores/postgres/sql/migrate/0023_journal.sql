-- The journal: one row per call and shard, under the seq of its last event. Partitions are ranges of seq, the same for
-- all shards: so the key needs nothing beside shard and seq, a reader touches only the range that it asks for, and the
-- history of a busy shard goes by dropping whole tables. Shards that are young share the first ones.
CREATE TABLE journal (
  shard_id bigint NOT NULL,
  last_seq bigint NOT NULL,
  epoch bigint NOT NULL,
  at_ms bigint NOT NULL,
  count integer NOT NULL,
  worker text,
  lines bytea NOT NULL,
  PRIMARY KEY (shard_id, last_seq)
) PARTITION BY RANGE (last_seq);
