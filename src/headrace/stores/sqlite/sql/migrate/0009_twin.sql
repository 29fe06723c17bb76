-- Blocked twins, packed; few and short-lived.
CREATE TABLE twin (
  shard_id INTEGER NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (shard_id, id)
) STRICT;
