-- Take in jobs of one shard that are all new, if nothing about them is unusual.
--
-- args     queue id, its configuration, shard id, now or NULL, waiting_max, then per job: id, first order key of its
--          priority, time or NULL for now, body up to and behind its time, payload; then all lines
-- answers  now, calls in the inbox; error HR001 or a duplicate key when something is unusual
SELECT the_now_ms, unnumbered FROM enqueue_new(
  %b::bigint, %s::text, %b::bigint, %b::bigint, %b::bigint,
  %b::text[], %b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bytea[], %s::text)
