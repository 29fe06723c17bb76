-- Feeds that were dropped, and whose rows are still to be erased. Until then their numbers are not used again.
CREATE TABLE feed_gone (
  feed_id INTEGER PRIMARY KEY
) STRICT;
