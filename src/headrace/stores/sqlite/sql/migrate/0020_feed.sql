-- Feeds by tenant and name, directories among them: their configuration as JSON, and their counters. Written once per
-- call.
CREATE TABLE feed (
  feed_id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  config TEXT NOT NULL,
  birth TEXT NOT NULL,
  created_at_ms INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  seq_epoch INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  oldest_at_ms INTEGER NOT NULL,
  changes_bytes INTEGER NOT NULL,
  items INTEGER NOT NULL,
  total INTEGER NOT NULL,
  number INTEGER NOT NULL,
  UNIQUE (tenant, name)
) STRICT;
