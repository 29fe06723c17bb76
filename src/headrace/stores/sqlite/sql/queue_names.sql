-- A tenant's queues behind a name, by name.
--
-- args     tenant, after, limit
SELECT name, shards FROM queue WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?;
