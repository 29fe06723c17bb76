-- Make later jobs of a shard ready whose time has come.
--
-- args     queue id, its configuration, shard id, now or NULL, first order key of the queue's priority, how many at most
-- answers  of how many; error HR001 when something is unusual
SELECT promote_plain(%b::bigint, %s::text, %b::bigint, %b::bigint, %b::bigint, %b::bigint)
