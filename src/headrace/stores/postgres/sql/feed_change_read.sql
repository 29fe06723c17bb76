-- Read the changes behind a seq, as long as those before hold fewer bytes than asked for.
--
-- args     feed_id, after seq, limit, bytes
-- answers  seq, at_ms, id, about and item of each, in order
SELECT seq, at_ms, id, about, item FROM (
  SELECT
    seq, at_ms, id, about, item,
    sum(octet_length(id) + octet_length(item)) OVER (ORDER BY seq) - octet_length(id) - octet_length(item) AS bytes_before
  FROM (
    SELECT seq, at_ms, id, about, item FROM feed_change WHERE feed_id = %s AND seq > %s ORDER BY seq LIMIT %s) AS page
) AS measured
WHERE bytes_before < %s ORDER BY seq;
