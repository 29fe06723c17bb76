-- Write items, new ones and those that are there.
--
-- args     feed_id, arrays: id, rank, at_ms, item
INSERT INTO feed_item (feed_id, id, rank, at_ms, item)
SELECT %s::bigint, * FROM unnest(%s::bytea[], %s::text[], %s::bigint[], %s::bytea[])
ON CONFLICT (feed_id, id) DO UPDATE SET rank = excluded.rank, at_ms = excluded.at_ms, item = excluded.item;
