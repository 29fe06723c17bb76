-- Jobs behind an id, waiting and active ones, by id, as long as those before hold fewer bytes than asked for.
--
-- args     shard_id, after id, limit, bytes
SELECT id, order_key, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload, blocked_job FROM (
  SELECT *, sum(octet_length(payload)) OVER (ORDER BY id) - octet_length(payload) AS bytes_before
  FROM (SELECT * FROM job WHERE shard_id = %s AND id > %s ORDER BY id LIMIT %s) AS page) AS measured
WHERE bytes_before < %s ORDER BY id;
