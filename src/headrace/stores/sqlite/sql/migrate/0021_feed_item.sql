-- What feeds hold. An id is kept as the bytes of its text, so that it may hold anything. A table with a key of numbers:
-- where a row's own columns are the key, SQLite keeps few rows of 1 KB to a page, and needs three times the room.
CREATE TABLE feed_item (
  item_id INTEGER PRIMARY KEY,
  feed_id INTEGER NOT NULL,
  id BLOB NOT NULL,
  rank TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  item BLOB NOT NULL,
  UNIQUE (feed_id, id)
) STRICT;
