-- Make a queue.
--
-- args     tenant, name, shards, config
INSERT INTO queue (tenant, name, shards, config) VALUES (?, ?, ?, ?);
