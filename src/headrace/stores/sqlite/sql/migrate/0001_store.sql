-- What the file remembers of itself: under which boot and profile it was last opened, to notice a lost tail.
CREATE TABLE store (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  boot_id TEXT NOT NULL,
  profile TEXT NOT NULL
) STRICT;
