-- Dead letters, packed, under a number that only grows.
CREATE TABLE dead_letter (
  shard_id bigint NOT NULL,
  number bigint NOT NULL,
  until_ms bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (shard_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
