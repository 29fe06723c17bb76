-- The first partition; it stays, since every new shard begins in it.
CREATE TABLE journal_0 PARTITION OF journal FOR VALUES FROM (MINVALUE) TO (4000000)
WITH (autovacuum_vacuum_scale_factor = 0.05);
