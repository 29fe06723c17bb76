-- Used idempotency keys, scoped to their id.
CREATE TABLE key (
  shard_id bigint NOT NULL,
  until_ms bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  PRIMARY KEY (shard_id, id, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
