-- What the schema knows of itself, in one row: its layout is the number of the last migration.
CREATE TABLE store (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  layout integer NOT NULL
);
