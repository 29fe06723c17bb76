-- Jobs that are done or cancelled, at most one per id; a newer one has a higher number.
CREATE TABLE finished_job (
  finished_job_id bigint GENERATED ALWAYS AS IDENTITY,
  shard_id bigint NOT NULL,
  until_ms bigint NOT NULL,
  pinned boolean NOT NULL,
  state text NOT NULL,
  id text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  result bytea,
  PRIMARY KEY (shard_id, id)
) WITH (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);
