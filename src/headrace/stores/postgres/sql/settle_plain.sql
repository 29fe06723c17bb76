-- End deliveries of one shard that are all done.
--
-- args     queue id, its configuration, shard id, now or NULL, how long a finished job is kept, keep_done_max, finished jobs to sweep
--          at most, worker, all lines, then per job, in the order of ids: its
--          place in the call, id, token, result
-- answers  now, whether somebody waits for the end of a job of the queue, calls in the inbox; error HR001 or a duplicate
--          key when something is unusual, HR002 when settle_drop and settle_done have to look closer
SELECT the_now_ms, is_awaited, unnumbered FROM settle_plain(
  %b::bigint, %s::text, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %b::bigint, %s::text, %b::bytea,
  %b::bigint[], %b::text[], %b::text[], %b::bytea[])
