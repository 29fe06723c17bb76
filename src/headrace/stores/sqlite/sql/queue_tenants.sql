-- The tenants behind a name, by name.
--
-- args     after, limit
SELECT DISTINCT tenant FROM queue WHERE tenant > ? ORDER BY tenant LIMIT ?;
