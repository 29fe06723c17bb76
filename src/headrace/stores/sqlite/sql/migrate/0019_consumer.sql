-- Readers of the journal that want to be remembered.
CREATE TABLE consumer (
  shard_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  seq INTEGER NOT NULL,
  hold INTEGER NOT NULL,
  seen_at_ms INTEGER NOT NULL,
  PRIMARY KEY (shard_id, name)
) STRICT, WITHOUT ROWID;
