-- Blocked jobs, packed; few and short-lived.
CREATE TABLE blocked_job (
  shard_id INTEGER NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (shard_id, id)
) STRICT;
