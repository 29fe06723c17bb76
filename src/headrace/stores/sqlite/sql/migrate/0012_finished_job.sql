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
