-- Entries behind a seq, oldest first, as long as those before hold fewer bytes than asked for.
--
-- args     shard_id, after seq, limit, bytes, up to seq
SELECT last_seq, epoch, at_ms, count, worker, lines FROM (
  SELECT
    last_seq, epoch, at_ms, count, worker, lines,
    sum(octet_length(lines)) OVER (ORDER BY last_seq ROWS UNBOUNDED PRECEDING) - octet_length(lines) AS bytes_before
  FROM (
    SELECT last_seq, epoch, at_ms, count, worker, lines
    FROM journal WHERE shard_id = %s AND last_seq > %s ORDER BY last_seq LIMIT %s) AS page) AS measured
WHERE bytes_before < %s AND last_seq - count < %s ORDER BY last_seq;
