-- Jobs that wait or are active: ready with an order key, active with a fence, later with neither. Few columns, since each
-- costs time on every write: what no statement looks at is packed into lease and body. The large column is last.
CREATE TABLE job (
  job_id INTEGER PRIMARY KEY,
  shard_id INTEGER NOT NULL,
  id TEXT NOT NULL,
  order_key INTEGER,
  run_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER,
  fence INTEGER,
  nonce TEXT,
  lease BLOB,
  body BLOB NOT NULL,
  payload BLOB NOT NULL
) STRICT;
