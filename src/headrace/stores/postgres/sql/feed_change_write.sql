-- Append changes to the log of a feed.
--
-- args     feed_id, arrays: seq, at_ms, id, about, item
INSERT INTO feed_change (feed_id, seq, at_ms, id, about, item)
SELECT %s::bigint, * FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bytea[]);
