-- Unlogged, so it is empty after a crash, a failover or a restore from a base backup, and only then: a store that finds
-- it empty may have lost its tail.
CREATE UNLOGGED TABLE alive (one boolean PRIMARY KEY DEFAULT true CHECK (one));
