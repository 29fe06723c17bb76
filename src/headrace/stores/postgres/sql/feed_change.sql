-- Statements on the changes of feeds.

-- name: feed_change_read
-- Read the changes after a seq, until they reach a number of bytes.
--
-- args     feed_id, after seq, limit, bytes
-- answers  seq, at_ms, id, about and item of each, in order
SELECT seq, at_ms, id, about, item FROM (
  SELECT
    seq, at_ms, id, about, item,
    sum(octet_length(id) + octet_length(item)) OVER (ORDER BY seq) - octet_length(id) - octet_length(item)
      AS bytes_before
  FROM (
    SELECT seq, at_ms, id, about, item FROM feed_change WHERE feed_id = %s AND seq > %s ORDER BY seq LIMIT %s) AS page
) AS measured
WHERE bytes_before < %s ORDER BY seq;

-- name: feed_change_oldest
-- Time and size of the changes from a seq on.
--
-- args     feed_id, seq, limit
-- answers  seq, at_ms and size of each, in order
SELECT seq, at_ms, octet_length(id) + octet_length(item)
FROM feed_change WHERE feed_id = %s AND seq >= %s ORDER BY seq LIMIT %s;

-- name: feed_change_write
-- Append changes to the log of a feed.
--
-- args     feed_id, arrays: seq, at_ms, id, about, item
INSERT INTO feed_change (feed_id, seq, at_ms, id, about, item)
SELECT %s::bigint, * FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bytea[]);

-- name: feed_change_drop
-- Drop changes from the front of the log. The range begins at the first change that is kept, so that no scan passes
-- rows that were dropped earlier and are not vacuumed yet.
--
-- args     feed_id, first seq, last seq
DELETE FROM feed_change WHERE feed_id = %s AND seq BETWEEN %s AND %s;

-- name: feed_change_erase
-- Erase changes of a dropped feed, some rows at a time.
--
-- args     feed_id, limit
DELETE FROM feed_change USING (SELECT feed_id, seq FROM feed_change WHERE feed_id = %s LIMIT %s) AS few
WHERE feed_change.feed_id = few.feed_id AND feed_change.seq = few.seq;
