-- name: store
-- The boot and profile under which the file was last opened, to notice that the last writes may be lost.
CREATE TABLE store (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  boot_id TEXT NOT NULL,
  profile TEXT NOT NULL
) STRICT;

-- name: queue
-- Queues by tenant and name, with their live configuration as JSON.
CREATE TABLE queue (
  queue_id INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  shards INTEGER NOT NULL,
  config TEXT NOT NULL,
  UNIQUE (tenant, name)
) STRICT;

-- name: shard
-- Counters of a shard: journal, order keys, and the number of records in each state. Written once per call.
CREATE TABLE shard (
  shard_id INTEGER PRIMARY KEY,
  queue_id INTEGER NOT NULL REFERENCES queue,
  shard INTEGER NOT NULL,
  epoch INTEGER NOT NULL DEFAULT 1,
  seq INTEGER NOT NULL DEFAULT 0,
  at_ms INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  number INTEGER NOT NULL DEFAULT 0,
  dead_letter INTEGER NOT NULL DEFAULT 0,
  first_seq INTEGER NOT NULL DEFAULT 1,
  journal_bytes INTEGER NOT NULL DEFAULT 0,
  oldest_at_ms INTEGER NOT NULL DEFAULT 0,
  ready INTEGER NOT NULL DEFAULT 0,
  later INTEGER NOT NULL DEFAULT 0,
  blocked INTEGER NOT NULL DEFAULT 0,
  active INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0,
  unpinned INTEGER NOT NULL DEFAULT 0,
  finished_job INTEGER NOT NULL DEFAULT 0,
  UNIQUE (queue_id, shard)
) STRICT;

-- name: job
-- Jobs that wait or are active: ready with an order key, active with a fence, later with neither. Few columns, since each
-- costs time on every write: fields that no statement reads are packed into lease and body. The large column is last.
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

-- name: job_by_id
-- At most one waiting-or-active record per id.
CREATE UNIQUE INDEX job_by_id ON job (shard_id, id);

-- name: job_ready
-- The order in which ready jobs are claimed.
CREATE INDEX job_ready ON job (shard_id, order_key) WHERE order_key IS NOT NULL;

-- name: job_later
-- The order in which later jobs become ready.
CREATE INDEX job_later ON job (shard_id, run_at_ms, id) WHERE order_key IS NULL AND fence IS NULL;

-- name: job_lease
-- The order in which leases expire.
CREATE INDEX job_lease ON job (shard_id, expires_at_ms, id) WHERE fence IS NOT NULL;

-- name: blocked_job
-- Blocked jobs, packed; few and short-lived.
CREATE TABLE blocked_job (
  shard_id INTEGER NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (shard_id, id)
) STRICT;

-- name: idempotency_key
-- Used idempotency keys, scoped to their id.
CREATE TABLE idempotency_key (
  shard_id INTEGER NOT NULL,
  id TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  until_ms INTEGER NOT NULL,
  PRIMARY KEY (shard_id, id, key)
) STRICT, WITHOUT ROWID;

-- name: idempotency_key_end
-- The order in which keys expire.
CREATE INDEX idempotency_key_end ON idempotency_key (shard_id, until_ms, id, key);

-- name: finished_job
-- Jobs that are done or cancelled. The key is the shard, whether it is pinned, and a number that grows: so the table
-- itself is ordered by age within a shard, and needs no index for it.
CREATE TABLE finished_job (
  finished_job_id INTEGER PRIMARY KEY,
  shard_id INTEGER NOT NULL,
  id TEXT NOT NULL,
  state TEXT NOT NULL,
  pinned INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  body BLOB NOT NULL,
  result BLOB
) STRICT;

-- name: finished_job_by_id
-- At most one finished job per id.
CREATE UNIQUE INDEX finished_job_by_id ON finished_job (shard_id, id);

-- name: finished_job_pinned
-- The order in which pinned finished jobs expire.
CREATE INDEX finished_job_pinned ON finished_job (shard_id, until_ms, id) WHERE pinned = 1;

-- name: dead_letter
-- Dead letters, packed, under a number that only grows per shard.
CREATE TABLE dead_letter (
  dead_letter_id INTEGER PRIMARY KEY,
  shard_id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  id TEXT NOT NULL,
  until_ms INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (shard_id, number)
) STRICT;

-- name: dead_letter_by_id
-- The dead letters of an id.
CREATE INDEX dead_letter_by_id ON dead_letter (shard_id, id, number);

-- name: worker
-- Workers seen lately, with the nonce of their last claim that returned jobs.
CREATE TABLE worker (
  shard_id INTEGER NOT NULL,
  worker TEXT NOT NULL,
  nonce TEXT NOT NULL,
  seen_at_ms INTEGER NOT NULL,
  PRIMARY KEY (shard_id, worker)
) STRICT, WITHOUT ROWID;

-- name: journal
-- The journal: one row per call and shard. The key is the shard and the seq of the entry's last event.
CREATE TABLE journal (
  entry_id INTEGER PRIMARY KEY,
  count INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  worker TEXT,
  lines BLOB NOT NULL
) STRICT;

-- name: consumer
-- Named consumers of the journal and their offsets.
CREATE TABLE consumer (
  shard_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  seq INTEGER NOT NULL,
  hold INTEGER NOT NULL,
  seen_at_ms INTEGER NOT NULL,
  PRIMARY KEY (shard_id, name)
) STRICT, WITHOUT ROWID;

-- name: feed
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

-- name: feed_item
-- The items of feeds. An id is stored as the bytes of its text, so that it may hold any character. The primary key is a
-- number: WITHOUT ROWID, SQLite stores few rows of 1 KB to a page, and needs three times the space.
CREATE TABLE feed_item (
  item_id INTEGER PRIMARY KEY,
  feed_id INTEGER NOT NULL,
  id BLOB NOT NULL,
  rank TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  item BLOB NOT NULL,
  UNIQUE (feed_id, id)
) STRICT;

-- name: feed_item_rank
-- The order of a feed. Not unique: two items may share a rank for a moment while ranks are spread anew.
CREATE INDEX feed_item_rank ON feed_item (feed_id, rank);

-- name: feed_change
-- The logs of feeds: a piece holds changes of one call under the seq of the last of them; fields that they do not share
-- are packed. The large column is last.
CREATE TABLE feed_change (
  change_id INTEGER PRIMARY KEY,
  feed_id INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  instance TEXT NOT NULL,
  lines BLOB NOT NULL,
  UNIQUE (feed_id, seq)
) STRICT;

-- name: feed_gone
-- Dropped feeds whose rows are still to be erased. Until then their feed_id is not used again.
CREATE TABLE feed_gone (
  feed_id INTEGER PRIMARY KEY
) STRICT;
