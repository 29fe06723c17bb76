-- Note what a claim has handed out on a shard.
--
-- args     shard id, now, worker, how many, their lines, nonce, the last order key
-- answers  whether a ready job stands behind that order key
SELECT claim_note(%b::bigint, %b::bigint, %s::text, %b::bigint, %b::bytea, %s::text, %b::bigint)
