-- What a claim has to know of the shards that it visits.
--
-- args     now or NULL, arrays per shard: id, configuration; then the worker
-- answers  per shard, in the order given: now, id, whether the configuration is this one, the first end of a lease, the
--          first time of a later job, the first order key of a ready one, the worker's last nonce, when it was seen
SELECT * FROM claim_look(%b::bigint, %b::bigint[], %b::text[], %s::text)
