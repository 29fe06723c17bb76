-- Insert items that are not there: half the work of feed_item_write.
--
-- args     feed_id, arrays: id, rank, at_ms, item
INSERT INTO feed_item (feed_id, id, rank, at_ms, item)
SELECT %s::bigint, * FROM unnest(%s::bytea[], %s::text[], %s::bigint[], %s::bytea[]);
