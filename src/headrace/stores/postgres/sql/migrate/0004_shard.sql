-- A shard: its journal, and how many records stand where as far as the inbox was folded in. No call on jobs writes
-- here, only the numberer. None of the counters is indexed, and half of each page is left free: every update is HOT.
CREATE TABLE shard (
  shard_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue_id bigint NOT NULL,
  index integer NOT NULL,
  epoch bigint NOT NULL DEFAULT 1,
  seq bigint NOT NULL DEFAULT 0,
  at_ms bigint NOT NULL DEFAULT 0,
  first_seq bigint NOT NULL DEFAULT 1,
  journal_bytes bigint NOT NULL DEFAULT 0,
  oldest_at_ms bigint NOT NULL DEFAULT 0,
  ready bigint NOT NULL DEFAULT 0,
  later bigint NOT NULL DEFAULT 0,
  blocked bigint NOT NULL DEFAULT 0,
  active bigint NOT NULL DEFAULT 0,
  done bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0,
  dead bigint NOT NULL DEFAULT 0,
  unpinned bigint NOT NULL DEFAULT 0,
  UNIQUE (queue_id, index)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
