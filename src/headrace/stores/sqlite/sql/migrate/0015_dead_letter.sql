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
