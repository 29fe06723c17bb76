-- Workers seen lately, with the nonce of their last claim that was handed jobs.
CREATE TABLE worker (
  shard_id INTEGER NOT NULL,
  worker TEXT NOT NULL,
  nonce TEXT NOT NULL,
  seen_at_ms INTEGER NOT NULL,
  PRIMARY KEY (shard_id, worker)
) STRICT, WITHOUT ROWID;
