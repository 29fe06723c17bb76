-- Used idempotency keys, scoped to their id.
CREATE TABLE idempotency (
  shard_id INTEGER NOT NULL,
  id TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  until_ms INTEGER NOT NULL,
  PRIMARY KEY (shard_id, id, key)
) STRICT, WITHOUT ROWID;
