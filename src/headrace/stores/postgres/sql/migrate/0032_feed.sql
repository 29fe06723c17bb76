-- Feeds and directories by tenant and name, with their configuration as JSON and their counters. Every write of a feed
-- locks its row, which gives its changes their order. No counter is indexed, and half of each page is left free: every
-- update is HOT.
CREATE TABLE feed (
  feed_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  created_at_ms bigint NOT NULL,
  epoch bigint NOT NULL,
  seq bigint NOT NULL,
  seq_epoch bigint NOT NULL,
  at_ms bigint NOT NULL,
  first_seq bigint NOT NULL,
  oldest_at_ms bigint NOT NULL,
  changes_bytes bigint NOT NULL,
  items bigint NOT NULL,
  total bigint NOT NULL,
  number bigint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  birth text NOT NULL,
  config text NOT NULL,
  UNIQUE (tenant, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
