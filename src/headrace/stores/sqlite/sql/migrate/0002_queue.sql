-- Queues by tenant and name, with their live configuration as JSON.
CREATE TABLE queue (
  queue_id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  shards INTEGER NOT NULL,
  config TEXT NOT NULL,
  UNIQUE (tenant, name)
) STRICT;
