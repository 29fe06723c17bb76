-- Drop jobs that are being settled; whether each of them may be is for the caller to see, who rolls back otherwise.
-- Only the primary key can be used: a condition on the lease would let stale statistics choose the index of leases.
--
-- args     now or NULL, configuration, queue id, shard id, ids
-- answers  per job: now, whether somebody waits for the end of a job of the queue (NULL when the configuration is
--          another one), id, fence, nonce, end of the lease, whether it has a blocked job, body
DELETE FROM job USING (
  SELECT coalesce(%b::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms,
    (
      SELECT CASE WHEN config = %s::text THEN
        awaited_until_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
      END FROM queue WHERE queue_id = %b::bigint
    ) AS is_awaited
) AS present
WHERE shard_id = %b::bigint AND id = ANY (%b::text[])
RETURNING now_ms, is_awaited, id, fence, nonce, expires_at_ms, blocked_job IS NOT NULL, body
