-- Make a queue; a known one is a unique violation.
--
-- args     tenant, name, shards, config
-- answers  queue_id
INSERT INTO queue (tenant, name, shards, config) VALUES (%s, %s, %s, %s) RETURNING queue_id;
