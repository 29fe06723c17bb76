-- Write what follows when deliveries of one shard, already dropped, are all done.
--
-- args     shard id, now, keep_done_max, finished jobs to sweep at most, worker, how many, their lines, ids without an
--          finished job, then per finished job: id, until, 1 when pinned, body, result
-- answers  calls in the inbox; error HR001 or a duplicate key when something is unusual
SELECT settle_done(
  %b::bigint, %b::bigint, %b::bigint, %b::bigint, %s::text, %b::bigint, %b::bytea, %b::text[],
  %b::text[], %b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[])
