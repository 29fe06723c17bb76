-- Workers seen lately, with the nonce of their last claim that was handed jobs.
CREATE TABLE worker (
  shard_id bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  nonce text NOT NULL,
  seen_at_ms bigint NOT NULL,
  PRIMARY KEY (shard_id, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
