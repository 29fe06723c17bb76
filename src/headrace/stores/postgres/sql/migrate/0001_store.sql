-- What the schema knows of itself, in one row: its layout is the number of the last migration, the profile the one of the
-- last opening.
CREATE TABLE store (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  layout integer NOT NULL,
  profile text NOT NULL DEFAULT ''
);
INSERT INTO store (layout) VALUES (1);
