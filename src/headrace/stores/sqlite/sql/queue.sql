-- name: queue_find
-- A queue by name.
--
-- args     tenant, name
SELECT queue_id, shards, config FROM queue WHERE tenant = ? AND name = ?;

-- name: queue_names
-- A tenant's queues behind a name, by name.
--
-- args     tenant, after, limit
SELECT name, shards FROM queue WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?;

-- name: queue_tenants
-- The tenants behind a name, by name.
--
-- args     after, limit
SELECT DISTINCT tenant FROM queue WHERE tenant > ? ORDER BY tenant LIMIT ?;

-- name: queue_create
-- Create a queue.
--
-- args     tenant, name, shards, config
INSERT INTO queue (tenant, name, shards, config) VALUES (?, ?, ?, ?);

-- name: queue_configure
-- Write the configuration of a queue.
--
-- args     config, queue_id
UPDATE queue SET config = ? WHERE queue_id = ?;

-- name: queue_forget
-- Drop a queue.
--
-- args     queue_id
DELETE FROM queue WHERE queue_id = ?;
