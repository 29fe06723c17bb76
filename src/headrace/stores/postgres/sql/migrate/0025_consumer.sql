-- Readers of the journal that want to be remembered.
CREATE TABLE consumer (
  shard_id bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  hold boolean NOT NULL,
  seen_at_ms bigint NOT NULL,
  PRIMARY KEY (shard_id, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
