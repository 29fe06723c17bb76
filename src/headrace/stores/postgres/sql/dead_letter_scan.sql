-- Dead letters behind a number, by number, as long as those before hold fewer bytes than asked for.
--
-- args     shard_id, after, limit, bytes
SELECT body FROM (
  SELECT *, sum(octet_length(body)) OVER (ORDER BY number) - octet_length(body) AS bytes_before
  FROM (SELECT * FROM dead_letter WHERE shard_id = %s AND number > %s ORDER BY number LIMIT %s) AS page) AS measured
WHERE bytes_before < %s ORDER BY number;
