-- Queues of a tenant behind a name, by name.
--
-- args     tenant, after name, limit
SELECT name, shards FROM queue WHERE tenant = %s AND name > %s ORDER BY name LIMIT %s;
