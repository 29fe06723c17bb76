-- The logs of feeds: changes of one call and feed, as many as make a piece. The key is the number of the last of them;
-- what they do not share is packed. The large column is last.
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
