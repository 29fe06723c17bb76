-- The journal: one row per call and shard. The key is the shard and the seq of the entry's last event.
CREATE TABLE entry (
  entry_id INTEGER PRIMARY KEY,
  count INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  worker TEXT,
  lines BLOB NOT NULL
) STRICT;
