-- Tenants behind a name, by name.
--
-- args     after name, limit
SELECT DISTINCT tenant FROM queue WHERE tenant > %s ORDER BY tenant LIMIT %s;
