-- Give items other ranks.
--
-- args     feed_id, arrays: id, rank
UPDATE feed_item SET rank = new.rank
FROM (SELECT %s::bigint AS feed_id) AS of, unnest(%s::bytea[], %s::text[]) AS new (id, rank)
WHERE feed_item.feed_id = of.feed_id AND feed_item.id = new.id;
