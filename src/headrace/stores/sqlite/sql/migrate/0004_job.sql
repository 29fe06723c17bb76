-- Jobs that wait or are active: ready with a place, active with a fence, later with neither. The large column is last.
CREATE TABLE job (
  job_id INTEGER PRIMARY KEY,
  shard_id INTEGER NOT NULL,
  id TEXT NOT NULL,
  place INTEGER,
  fence INTEGER,
  run_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER,
  claimed_at_ms INTEGER,
  cancel_asked INTEGER NOT NULL DEFAULT 0,
  nonce TEXT,
  worker TEXT,
  enqueued_at_ms INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  stalls INTEGER NOT NULL,
  kind TEXT NOT NULL,
  tag TEXT,
  rest BLOB,
  payload BLOB NOT NULL
) STRICT;
