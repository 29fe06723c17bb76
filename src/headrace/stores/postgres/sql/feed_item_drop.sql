-- Drop items.
--
-- args     feed_id, ids
DELETE FROM feed_item USING (SELECT %s::bigint AS feed_id) AS of, unnest(%s::bytea[]) AS gone (id)
WHERE feed_item.feed_id = of.feed_id AND feed_item.id = gone.id;
