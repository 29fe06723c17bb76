-- Finished jobs behind an id, by id, as long as those before hold fewer bytes than asked for.
--
-- args     shard_id, after id, limit, bytes
SELECT id, state, pinned, until_ms, body, result FROM (
  SELECT *, sum(size) OVER (ORDER BY id) - size AS bytes_before FROM (
    SELECT *, coalesce(octet_length(result), 0) AS size
    FROM finished_job WHERE shard_id = %s AND id > %s ORDER BY id LIMIT %s) AS page) AS measured
WHERE bytes_before < %s ORDER BY id;
