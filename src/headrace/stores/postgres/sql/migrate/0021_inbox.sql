-- What calls have done and nobody has numbered yet: one row per call and shard, with its journal lines and by how much
-- it changed the counts. Written last in its transaction, so that what follows another call has the higher ticket.
-- Short-lived and never updated; lines are not compressed, since they are read once, soon.
CREATE TABLE inbox (
  ticket bigint GENERATED ALWAYS AS IDENTITY,
  shard_id bigint NOT NULL,
  now_ms bigint NOT NULL,
  count integer NOT NULL,
  ready integer NOT NULL DEFAULT 0,
  later integer NOT NULL DEFAULT 0,
  blocked integer NOT NULL DEFAULT 0,
  active integer NOT NULL DEFAULT 0,
  done integer NOT NULL DEFAULT 0,
  cancelled integer NOT NULL DEFAULT 0,
  dead integer NOT NULL DEFAULT 0,
  unpinned integer NOT NULL DEFAULT 0,
  worker text,
  lines bytea NOT NULL,
  PRIMARY KEY (shard_id, ticket)
) WITH (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
  toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 4000,
  toast.autovacuum_vacuum_cost_delay = 0
);
