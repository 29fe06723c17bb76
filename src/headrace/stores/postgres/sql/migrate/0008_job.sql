-- Jobs that wait or are active: ready with an order key, active with a fence, later with neither; the blocked job of an
-- active one is inside its row. What no statement looks at is packed into lease, blocked job and body. A row lives through
-- three versions and goes, so pages keep some room and vacuum comes early and without pauses.
CREATE TABLE job (
  shard_id bigint NOT NULL,
  order_key bigint,
  run_at_ms bigint NOT NULL,
  expires_at_ms bigint,
  fence bigint,
  id text COLLATE "C" NOT NULL,
  nonce text,
  lease bytea,
  body bytea NOT NULL,
  payload bytea NOT NULL,
  blocked_job bytea,
  PRIMARY KEY (shard_id, id)
) WITH (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2
);
