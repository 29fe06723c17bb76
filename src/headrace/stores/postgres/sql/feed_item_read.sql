-- Read the items behind a rank, as long as those before hold fewer bytes than asked for.
--
-- args     feed_id, rank, limit, bytes
-- answers  id, rank, at_ms and item of each, in order
SELECT id, rank, at_ms, item FROM (
  SELECT
    id, rank, at_ms, item,
    sum(octet_length(id) + octet_length(item)) OVER (ORDER BY rank) - octet_length(id) - octet_length(item) AS bytes_before
  FROM (
    SELECT id, rank, at_ms, item FROM feed_item WHERE feed_id = %s AND rank > %s ORDER BY rank LIMIT %s) AS page
) AS measured
WHERE bytes_before < %s ORDER BY rank;
