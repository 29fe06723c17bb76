-- args     after, limit
SELECT DISTINCT tenant FROM queue WHERE tenant > ? ORDER BY tenant LIMIT ?;
