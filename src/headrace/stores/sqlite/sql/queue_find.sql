-- A queue by name.
--
-- args     tenant, name
SELECT queue_id, shards, config FROM queue WHERE tenant = ? AND name = ?;
