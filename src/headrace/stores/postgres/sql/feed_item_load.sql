-- Read items.
--
-- args     ids, feed_id
-- answers  id, rank, at_ms and item of each that is there
SELECT feed_item.id, rank, at_ms, item
FROM unnest(%s::bytea[]) AS wanted (id)
JOIN feed_item ON feed_item.feed_id = %s AND feed_item.id = wanted.id;
